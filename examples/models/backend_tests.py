#!/usr/bin/env python3
"""Optimizes the backend tests of the installed onnx package and compares the outputs of the results.

    backend_tests.py [--optimize PROGRAM] [--only PATTERN] [--keep DIR] [--json F]

Every test is one model with inputs. `optimize` runs on it; then the original and the result run on the inputs in
onnxruntime, or, where that cannot run the original, in onnx's reference evaluator. Their outputs are compared: names,
order, types, sizes, and numbers within 1e-3 (1e-2 for 16 bits and fewer). Outputs of the original that differ from run
to run are compared by type and size only. A result is

    right         the outputs are those of the original
    no engine     no engine runs the original; only unchanged nodes are checked
    wrong         other outputs, or the engine that runs the original cannot run the result
    refused       optimize refuses the model with a one-line reason
    crashed       optimize fails in another way, or takes longer than --seconds

Needs Python 3.9 and `pip install onnx onnxruntime numpy`. Exit codes: 0; 1 if one is wrong, refused or crashed;
2 for bad usage.
"""

import argparse
import collections
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

try:
    import numpy
    import onnx
    import onnx.backend.test.case.node
    import onnx.reference
    import onnxruntime
except ImportError as e:
    sys.exit(f"{e.name}: cannot be imported by {sys.executable}; expected what `pip install onnx onnxruntime numpy` "
             "installs")

DATA = os.path.join(os.path.dirname(onnx.backend.test.__file__), "data")
FLAGS = ["--max-expansions", "30", "--budget", "2s"]


def cases(only):
    """Tuples (name, model, inputs by name), ordered by name."""
    found = {}
    for case in onnx.backend.test.case.node.collect_testcases(None):
        found[f"node/{case.name}"] = (case.model, [as_array(value) for value in case.data_sets[0][0]])
    for folder in sorted(glob.glob(os.path.join(DATA, "*", "*", ""))):
        if os.path.exists(folder + "model.onnx"):
            model = onnx.load(folder + "model.onnx")
            found["/".join(folder.split(os.sep)[-3:-1])] = (model, stored_inputs(model, folder))
    for path in glob.glob(os.path.join(DATA, "light", "*.onnx")):
        model = onnx.load(path)
        found["light/" + os.path.basename(path)[:-5]] = (model, stored_inputs(model, ""))
    for name in sorted(found):
        if re.search(only, name):
            model, values = found[name]
            with_data = {t.name for t in model.graph.initializer} if model.ir_version < 4 else set()
            names = [i.name for i in model.graph.input if i.name not in with_data]
            yield name, model, dict(zip(names, values))


def as_array(value):
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def stored_inputs(model, folder):
    values, first = [], os.path.join(folder, "test_data_set_0")
    with_data = {t.name for t in model.graph.initializer}
    for i, info in enumerate(info for info in model.graph.input if info.name not in with_data):
        path = os.path.join(first, f"input_{i}.pb")
        if not os.path.exists(path):
            values.append(made_up(info))
            continue
        with open(path, "rb") as f:
            kind = onnx.SequenceProto if info.type.HasField("sequence_type") else \
                onnx.OptionalProto if info.type.HasField("optional_type") else onnx.TensorProto
            value = kind.FromString(f.read())
        read = {onnx.SequenceProto: onnx.numpy_helper.to_list, onnx.OptionalProto: onnx.numpy_helper.to_optional,
                onnx.TensorProto: onnx.numpy_helper.to_array}[kind]
        values.append(read(value))
    return values


def made_up(info):
    dims = [d.dim_value or 1 for d in info.type.tensor_type.shape.dim]
    kind = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
    return numpy.random.default_rng(0).random(dims).astype(kind)


def session(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run_in_onnxruntime(model, inputs):
    return session(model).run(None, inputs)


def run_in_reference(model, inputs):
    return onnx.reference.ReferenceEvaluator(model).run(None, inputs)


def attempt(engine, model, inputs):
    try:
        return engine(model, inputs), None
    except Exception as e:  # engines raise whatever they like
        return None, " ".join(str(e).split())[:200]


def difference(a, b, values=True):
    """Why two outputs differ, or None."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        if len(a) != len(b):
            return f"{len(a)} and {len(b)} values"
        return next(filter(None, (difference(x, y, values) for x, y in zip(a, b))), None)
    if a is None or b is None or isinstance(a, dict):
        return None if (a is None and b is None) or not values or a == b else "other values"
    a, b = numpy.asarray(a), numpy.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}"
    if not values:
        return None
    if a.dtype.kind not in "fcV" and a.dtype.kind in "iubOSU":
        return None if (a == b).all() else "other values"
    tolerance = 1e-3 if a.dtype.itemsize > 2 else 1e-2
    wide = numpy.complex128 if a.dtype.kind == "c" else numpy.float64
    same = numpy.allclose(a.astype(wide), b.astype(wide), rtol=tolerance, atol=tolerance, equal_nan=True)
    return None if same else "other values"


def sizes(model, inputs):
    """Flags that bind the open sizes of the inputs."""
    bound = {}
    for info in model.graph.input:
        dims = info.type.tensor_type.shape.dim
        for axis, d in enumerate(dims):
            size = numpy.shape(inputs[info.name])[axis] if info.name in inputs and not d.HasField("dim_value") else 0
            if size > 0:
                bound[d.dim_param or f"{info.name}.{axis}"] = size
    return [word for name, size in bound.items() for word in ("--dim", f"{name}={size}")]


def optimized(args, model, inputs, folder):
    """Returns (exit code or None, last line of output, model or None)."""
    path, out = os.path.join(folder, "model.onnx"), os.path.join(folder, "out")
    with open(path, "wb") as f:
        f.write(model.SerializeToString())
    command = [args.optimize, path, *sizes(model, inputs), *FLAGS, "--out", out]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=args.seconds)
    except subprocess.TimeoutExpired:
        return None, "takes too long", None
    said = (done.stderr.strip().splitlines() or [""])[-1].replace(path, "MODEL")
    args.kept.update([args.name] if "kept with all that depends on it" in done.stdout else [])
    result = onnx.load(os.path.join(out, "optimized.onnx")) if done.returncode == 0 else None
    return done.returncode, said, result


def judged(args, model, inputs):
    """Returns (kind of result, reason)."""
    with tempfile.TemporaryDirectory() as folder:
        code, said, result = optimized(args, model, inputs, folder)
        if args.keep and result:
            os.makedirs(args.keep, exist_ok=True)
            onnx.save(result, os.path.join(args.keep, args.name.replace("/", "_") + ".onnx"))
    if code == 1:
        return "refused", said
    if code != 0:
        return "crashed", f"exit code {code}: {said}"
    names = [[v.name for v in values] for m in (model, result) for values in (m.graph.input, m.graph.output)]
    if names[1] != names[3]:
        return "wrong", f"outputs {names[1]} and {names[3]}"
    problems = []
    for engine in (run_in_onnxruntime, run_in_reference):
        before, problem = attempt(engine, model, inputs)
        if problem:
            problems.append(problem)
            continue
        after, problem = attempt(engine, result, inputs)
        if problem:
            return "wrong", f"{engine.__name__} cannot run the result: {problem}"
        again, _ = attempt(engine, model, inputs)
        differs = difference(before, after, values=difference(before, again) is None)
        return ("wrong", f"{engine.__name__}: {differs}") if differs else ("right", engine.__name__)
    same = [n.SerializeToString() for n in model.graph.node] == [n.SerializeToString() for n in result.graph.node]
    return "no engine", ("same nodes" if same else "rewritten") + ": " + problems[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--optimize", metavar="PROGRAM", default="optimize",
                        help="path of the program; default: in PATH")
    parser.add_argument("--only", metavar="PATTERN", default="", help="tests in whose name this is found")
    parser.add_argument("--keep", metavar="DIR", help="where results are kept; default: nowhere")
    parser.add_argument("--seconds", type=float, default=60, help="that one run of optimize may take")
    parser.add_argument("--json", metavar="F", help="file for kind and reason of each test")
    args = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    args.kept, results = set(), {}
    for name, model, inputs in cases(args.only):
        args.name = name
        results[name] = judged(args, model, inputs)
        if results[name][0] in ("wrong", "crashed", "refused"):
            print(name, *results[name], flush=True)
    counts = collections.Counter(kind for kind, _ in results.values())
    print(f"{len(results)} tests of onnx {onnx.__version__} in onnxruntime {onnxruntime.__version__}")
    for kind in ("right", "no engine", "wrong", "refused", "crashed"):
        print(f"{kind:<12} {counts[kind]:5}")
    print(f"{'in part kept':<12} {len(args.kept):5}, since a graph cannot say all of it")
    reasons = collections.Counter(re.sub(r"'[^']*'|\d+", "_", why) for kind, why in results.values()
                                  if kind == "refused")
    for why, count in reasons.most_common():
        print(f"  {count:4} {why[:160]}")
    if args.json:
        with open(args.json, "w") as f:
            json.dump(results, f, indent=1)
    return 1 if counts["wrong"] or counts["refused"] or counts["crashed"] else 0


if __name__ == "__main__":
    sys.exit(main())
