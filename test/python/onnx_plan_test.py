"""Plans as annotated ONNX models: what the annotations say, and that they compute what the whole model does.

    UNITY_PROGRAMS=build/release/bin python test/python/onnx_plan_test.py

Says "skipped" and exits with 77 where onnx is absent or older than its annotations for several devices (1.18).
"""

import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy
    import onnx
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
if not hasattr(onnx.NodeProto(), "device_configurations"):
    print(f"skipped: onnx {onnx.__version__}, expected 1.18 or later")
    sys.exit(77)
import onnx.reference

PROGRAMS = pathlib.Path(os.environ["UNITY_PROGRAMS"])
PLANS = pathlib.Path(__file__).parents[2] / "examples" / "plans"
GPT = "zoo:gpt?layers=2&hidden=64&heads=8&seq=32&vocab=512&batch=4"
SEARCHES = {  # degrees, and sums, of a transformer; a pipeline
    "parts": [GPT, "--machine", "dgx_a100:1x4", "--search", "unity", "--keep-graph", "--max-proposals", "0",
              "--baselines", "data,expert"],
    "stages": [GPT, "--machine", "p100:2x2", "--search", "unity", "--keep-graph", "--dims", "data,model,pipeline",
               "--stages", "2", "--microbatches", "2", "--max-proposals", "0", "--baselines", "data"],
}
# Operators that can be run on a part of their operands, with attributes as they are.
PARTWISE = {"Add", "Sub", "Mul", "Div", "Relu", "Erf", "Tanh", "Sqrt", "Softmax", "MatMul", "Gemm", "Conv", "MaxPool",
            "AveragePool", "Gelu", "Sigmoid", "Transpose", "ReduceMean", "LayerNormalization"}


def parts(spec, array):
    """The devices and the part of each shard, by the loops of ONNX's proposal."""
    dims = [(d.axis, d.simple_sharding[0].num_shards) for d in spec.sharded_dim]
    groups = {e.key: list(e.value) for e in spec.index_to_device_group_map}
    places = list(itertools.product(*[range(count) for _, count in dims]))
    assert len(places) == len(spec.device), spec
    for place, device in zip(places, spec.device):
        at = [slice(None)] * array.ndim
        for (axis, count), index in zip(dims, place):
            assert array.shape[axis] % count == 0, spec
            width = array.shape[axis] // count
            at[axis] = slice(index * width, (index + 1) * width)
        yield groups.get(device, [device]), tuple(at)


def held(spec, array):
    """What each device has; a device with several parts is left out."""
    found = {}
    for devices, at in parts(spec, array):
        for d in devices:
            found.setdefault(d, []).append(at)
    return {d: all_at[0] for d, all_at in found.items() if len(all_at) == 1}


def run_node(node, arrays):
    alone = onnx.NodeProto()
    alone.CopyFrom(node)
    del alone.device_configurations[:]
    return onnx.reference.ReferenceEvaluator(alone).run(None, dict(zip(node.input, arrays)))[0]


def attribute(node, name):
    return next((onnx.helper.get_attribute_value(a) for a in node.attribute if a.name == name), 0)


def summed_axes(node, values):
    """The axes of both operands of a product over which it sums, and the others of their last two."""
    first, second = (values[t].ndim for t in node.input[:2])
    a = first - 2 if attribute(node, "transA") else first - 1
    b = second - 1 if attribute(node, "transB") else second - 2
    return a, b, 2 * first - 3 - a, 2 * second - 3 - b


def check_by_parts(node, values):
    """Runs the node on each device's parts. Returns "alone", "sum" (parts of a sum, which are added up here), or None
    where it was not run."""
    specs = {s.tensor_name: s for s in node.device_configurations[0].sharding_spec}
    tensors = [*node.input, node.output[0]]
    if node.op_type not in PARTWISE or any(t not in specs for t in tensors):
        return None
    whole = values[node.output[0]]
    places = {t: held(specs[t], values[t]) for t in tensors}
    devices = [d for d in places[node.input[0]] if all(d in places[t] for t in node.input)]
    if node.op_type in ("MatMul", "Gemm"):
        a, b, rows, columns = summed_axes(node, values)
        if any(places[node.input[0]][d][a] != slice(None) for d in devices):
            return check_sum(node, values, places, devices, (a, b, rows, columns))
    for d in devices:
        result = run_node(node, [values[t][places[t][d]] for t in node.input])
        part = whole[places[node.output[0]][d]]
        assert result.shape == part.shape and numpy.allclose(result, part, rtol=1e-4, atol=1e-5), (node, d)
    return "alone"


def check_sum(node, values, places, devices, axes):
    a, b, rows, columns = axes
    whole = values[node.output[0]]
    total = numpy.zeros_like(whole)
    seen = set()
    for d in devices:
        at = [places[t][d] for t in node.input]
        assert at[0][a] == at[1][b], (node, d)
        if repr(at) in seen:
            continue  # a replica
        seen.add(repr(at))
        arrays = [values[t][part] for t, part in zip(node.input, at)]
        if len(arrays) > 2 and (at[0][a].start or 0) > 0:
            arrays[2] = numpy.zeros_like(arrays[2])  # what is added to the sum is added once
        out = [*at[0]][:-2] + [at[0][rows], at[1][columns]]
        total[tuple(out[-whole.ndim:])] += run_node(node, arrays)
    assert numpy.allclose(total, whole, rtol=1e-4, atol=1e-5), node
    return "sum"


def names_of(plan):
    """The name in the file of each operator's first result."""
    names, value = {}, 0
    outputs = plan["graph"]["outputs"]
    values = []
    for number, node in enumerate(plan["graph"]["nodes"]):
        for result in range(len(node["results"])):
            if result == 0:
                names[number] = f"{node['op']}_{value}"
            values.append((number, result))
            value += 1
    for i, out in enumerate(outputs):
        number = values[out][0] if isinstance(out, int) else out["node"]
        names[number] = "output" if i == 0 else f"output_{i}"
    return names


def check_results(plan, model):
    """Results of operators are stated as the plan's tasks make them. Returns how many are, and how many are sums."""
    written = {s.tensor_name: s for n in model.graph.node for c in n.device_configurations for s in c.sharding_spec
               if s.tensor_name in n.output}
    numbers = {name: i for i, name in enumerate(model.configuration[0].device)}
    names = names_of(plan)
    compared = sums = 0
    for one in plan["strategy"]:
        spec = written[names[one["node"]]]
        if any(r["degree"] > 1 for r in one.get("reductions", [])):
            sums += 1
            continue
        divided = [(k, d) for k, d in enumerate(one["dimensions"]) if d["degree"] > 1]
        assert [(d.axis, d.simple_sharding[0].dim_value, d.simple_sharding[0].num_shards)
                for d in spec.sharded_dim] == [(d["dimension"], d["size"], d["degree"]) for _, d in divided], one
        holders = {}
        for task in sorted(one["tasks"], key=lambda t: t.get("copy", 0)):
            devices = holders.setdefault(tuple(task["part"][k] for k, _ in divided), [])
            if numbers[task["device"]] not in devices:
                devices.append(numbers[task["device"]])
        groups = {e.key: list(e.value) for e in spec.index_to_device_group_map}
        assert [groups.get(d, [d]) for d in spec.device] == [holders[k] for k in sorted(holders)], one
        compared += 1
    return compared, sums


def check_stages(plan, model):
    stages = plan.get("pipeline", {}).get("stages")
    found = {n.output[0]: c.pipeline_stage for n in model.graph.node for c in n.device_configurations
             if c.HasField("pipeline_stage")}
    if not stages or max(stages) == 0:
        assert not found
        return 0
    order = {d["name"]: i for i, d in enumerate(plan["machine"]["topology"]["devices"])}
    names = names_of(plan)
    for one in plan["strategy"]:
        assert found[names[one["node"]]] == stages[order[one["tasks"][0]["device"]]], one
    return len(set(found.values()))


def values_of(model):
    """What the whole model computes, by the name of each value, from inputs at random."""
    random = numpy.random.default_rng(7)
    every = onnx.ModelProto()
    every.CopyFrom(model)
    feeds = {}
    for v in model.graph.input:
        t = v.type.tensor_type
        dims = [d.dim_value for d in t.shape.dim]
        element = onnx.helper.tensor_dtype_to_np_dtype(t.elem_type)
        if numpy.issubdtype(element, numpy.integer):
            feeds[v.name] = random.integers(0, 8, size=dims).astype(element)
        else:
            feeds[v.name] = (random.normal(size=dims) / 4).astype(element)
    there = {o.name for o in model.graph.output}
    every.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for n in model.graph.node
                              for name in n.output if name not in there)
    names = [o.name for o in every.graph.output]
    found = dict(zip(names, onnx.reference.ReferenceEvaluator(every).run(names, feeds)))
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    return {**feeds, **constants, **found}


def check(path, folder):
    out = folder / "plan.onnx"
    subprocess.run([PROGRAMS / "export_plan", path, "--to", "onnx", "--out", out], check=True,
                   stdout=subprocess.DEVNULL)
    model = onnx.load(out)
    onnx.checker.check_model(model, full_check=True)
    again = onnx.load_from_string(model.SerializeToString())
    assert again == model and again.ir_version >= 11
    (devices,) = model.configuration
    plan = json.loads(path.read_text())
    assert list(devices.device) == [d["name"] for d in plan["machine"]["topology"]["devices"]]
    assert devices.num_devices == len(devices.device)
    for node in model.graph.node:
        for c in node.device_configurations:
            assert c.configuration_id == devices.name
            assert all(s.tensor_name in [*node.input, *node.output] for s in c.sharding_spec)
    compared, sums = check_results(plan, model)
    stages = check_stages(plan, model)
    values = values_of(model)
    how = [check_by_parts(n, values) for n in model.graph.node if n.device_configurations]
    return {"results": compared, "sums": sums, "stages": stages, "run by parts": how.count("alone"),
            "run as partial sums": how.count("sum")}


def main():
    total = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        plans = sorted(PLANS.glob("*.json"))
        for search, arguments in SEARCHES.items():
            subprocess.run([PROGRAMS / "parallelize", *arguments, "--plans", folder / search], check=True,
                           stdout=subprocess.DEVNULL)
            plans += sorted((folder / search).glob("*.json"))
        for path in plans:
            found = check(path, folder)
            print(f"{path.parent.name}/{path.name}: {found}")
            for key, count in found.items():
                total[key] = total.get(key, 0) + count
    assert all(total.values()), total
    return 0


if __name__ == "__main__":
    sys.exit(main())
