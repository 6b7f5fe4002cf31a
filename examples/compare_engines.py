#!/usr/bin/env python3
"""Runs a model and its optimized form in onnxruntime, compares outputs and times, and sets unity's own beside.

    compare_engines.py MODEL.onnx [-- FLAGS of optimize]     calls optimize, then compares
    compare_engines.py MODEL.onnx OPTIMIZED.onnx [--result RESULT.json]
    compare_engines.py FOLDER --suite [-- FLAGS of optimize]  the table of all models in a folder: engine_suite.py

RESULT.json is what `optimize --run BACKEND --json` wrote; without it the second form has no times of unity. Outputs of
the original in onnxruntime are compared with unity's where the program run_model is there.
Needs Python 3.9 and `pip install onnxruntime numpy`; onnx too for models whose weights have no data, which get random
ones. Exit codes: 0; 1 where outputs differ by more than --tolerance, or for bad input (one line on standard error);
2 for bad usage.
"""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

DEFAULT_FLAGS = ["--cost", "measured:cpu", "--run", "cpu"]
LEVELS = {"off": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED",
          "all": "ORT_ENABLE_ALL"}
FLOATS = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16"}
INTEGERS = {f"tensor({kind})": kind
            for kind in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")}

TENSOR_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11}

WEIGHTS_KEY = "unity.weights"  # of the metadata in which unity's export lists inputs that are weights


class Problem(Exception):
    """One line that says what is wrong where, and what was expected."""


def one_line(text):
    return " ".join(str(text).split())


def sized(text):
    name, separator, size = text.rpartition("=")
    if not (separator and name and size.isdecimal() and int(size) > 0):
        raise argparse.ArgumentTypeError(f"'{text}'; expected NAME=N with N of at least 1")
    return name, int(size)


def whole(text):
    if not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"'{text}'; expected a number of at least 1")
    return int(text)


def positive(text):
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}'; expected a number above 0")
    return value


def arguments(words):
    own, flags = (words[:words.index("--")], words[words.index("--") + 1:]) if "--" in words else (words, [])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL.onnx")
    parser.add_argument("optimized", metavar="OPTIMIZED.onnx", nargs="?")
    parser.add_argument("--suite", action="store_true", 
                        help="of a folder's models, beside onnxsim where it is there")
    parser.add_argument("--result", metavar="F", help="JSON of the optimize run that wrote OPTIMIZED.onnx")
    parser.add_argument("--optimize", metavar="PROGRAM", default="optimize",
                        help="path of the program; default: in PATH")
    parser.add_argument("--run-model", metavar="PROGRAM", default="run_model",
                        help="path of the program; default: in PATH")
    parser.add_argument("--backend", help="of unity, to compare outputs on; default: that of run_model")
    parser.add_argument("--out", metavar="DIR", help="where optimize leaves its files; default: nowhere")
    parser.add_argument("--dim", metavar="NAME=SIZE", type=sized, action="append", default=[],
                        help="size of a dynamic dimension")
    parser.add_argument("--below", metavar="NAME=N", type=sized, action="append", default=[],
                        help="an input of integers is random from 0 to N-1; default: 0 or 1")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs")
    parser.add_argument("--threads", metavar="N", type=whole, default=len(os.sched_getaffinity(0)),
                        help="of both engines; default: all that this process may use")
    parser.add_argument("--level", choices=LEVELS, default="all",
                        help="what onnxruntime optimizes itself; default: all")
    parser.add_argument("--runs", metavar="N", type=whole, default=100, help="timed runs of each model at most")
    parser.add_argument("--seconds", type=positive, default=5, help="after which no more than 5 runs are made")
    parser.add_argument("--tolerance", type=positive, default=1e-4, help="largest relative error of an output")
    parser.add_argument("--json", metavar="F", help="file for the result")
    args = parser.parse_args(own)
    args.flags = flags
    if args.optimized and (flags or args.out):
        parser.error("flags of optimize and --out are for calling it, and OPTIMIZED.onnx is given")
    if args.suite and (args.optimized or args.out or args.backend):
        parser.error("--suite takes a folder alone, without --out and --backend")
    if args.result and not args.optimized:
        parser.error("--result belongs to an OPTIMIZED.onnx, which is not given")
    if args.seed < 0:
        parser.error("--seed: expected a number of at least 0")
    args.dim, args.below = dict(args.dim), dict(args.below)
    return args


def import_engine():
    try:
        import numpy
        import onnxruntime
    except ImportError as e:
        raise Problem(f"onnxruntime: cannot be imported by {sys.executable} ({one_line(e)}); "
                      "expected what `pip install onnxruntime numpy` installs") from e
    return numpy, onnxruntime


def optimize(args, folder):
    """The paths of the optimized model and of the JSON."""
    optimized, result = os.path.join(folder, "optimized.onnx"), os.path.join(folder, "result.json")
    for stale in (optimized, result):
        if os.path.exists(stale):
            os.remove(stale)
    dims = [word for name, size in args.dim.items() for word in ("--dim", f"{name}={size}")]
    chosen = any(flag.split("=")[0] in ("--run", "--cost") for flag in args.flags)
    flags = [] if chosen else list(DEFAULT_FLAGS)
    flags += args.flags
    threads = ["--backend-threads", str(args.threads)] if any(flag.endswith("cpu") for flag in flags) else []
    command = [args.optimize, args.model, *dims, *threads, "--seed", str(args.seed), *flags, "--out", folder,
               "--json", result]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except OSError as e:
        raise Problem(f"{args.optimize}: {e.strerror}; expected the program optimize, see --optimize") from e
    if done.returncode != 0:
        why = done.stderr.strip().splitlines() or ["it said nothing"]
        raise Problem(f"{args.optimize}: exit code {done.returncode}: {why[-1].removeprefix('optimize: ')}")
    return optimized, result


def unity_times(path):
    """The run of RESULT.json; None where optimize was not told to run."""
    try:
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
        run = result.get("run")
        kept = ("backend", "original_s", "optimized_s", "ratio", "max_rel_error", "runs")
        times = run and {key: run[key] for key in kept}
        if times and "measuring" in result:
            times["device"] = result["measuring"]["device"]
        return times
    except OSError as e:
        raise Problem(f"{path}: {e.strerror}; expected the JSON of optimize") from e
    except (ValueError, AttributeError, KeyError, TypeError) as e:
        raise Problem(f"{path}: {type(e).__name__} ({one_line(e)}); expected the JSON of optimize") from e


def open_model(engine, args, path, shown=None):
    """shown: the name in messages, where it is another."""
    if not os.path.isfile(path):
        raise Problem(f"{path}: no such file; expected an ONNX model")
    options = engine.SessionOptions()
    options.intra_op_num_threads = args.threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = getattr(engine.GraphOptimizationLevel, LEVELS[args.level])
    options.log_severity_level = 4  # errors are told by their exception
    # Each session has threads of its own: those of the one must not keep spinning while the other is timed.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    try:
        return engine.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as e:  # the exceptions of onnxruntime have no other common base
        raise Problem(f"{shown or path}: onnxruntime does not take it: {one_line(e)}") from e


def weights_of(session):
    """Inputs that stand for weights without data, as in models exported from the zoo."""
    return [name for name in session.get_modelmeta().custom_metadata_map.get(WEIGHTS_KEY, "").split("\n") if name]


def make_weight(numpy, seed, name, shape):
    """The same for the same name, so that both models get the same. Products keep the size of their signal; what has
    one dimension is in [0.5, 1.5), as variances must be positive."""
    random = numpy.random.default_rng([seed, *name.encode()])
    if len(shape) < 2:
        return random.uniform(0.5, 1.5, shape).astype(numpy.float32)
    fan_in = math.prod(shape[1:]) if len(shape) == 4 else shape[-2]
    return (random.standard_normal(shape) / math.sqrt(fan_in)).astype(numpy.float32)


def open_with_weights(numpy, engine, args, path, folder):
    """The session, and the path of the file that it is of. Weights without data get values from the seed, in a file in
    the folder: as inputs, what depends on them alone would run every time."""
    session = open_model(engine, args, path)
    names = weights_of(session)
    if not names:
        return session, path
    try:
        import onnx
    except ImportError as e:
        raise Problem(f"{path}: has weights without data, and onnx cannot be imported to add them ({one_line(e)}); "
                      "expected what `pip install onnx` installs") from e
    model = onnx.load(path)
    graph = model.graph
    for entry in [entry for entry in graph.input if entry.name in names]:
        tensor = entry.type.tensor_type
        if tensor.elem_type != onnx.TensorProto.FLOAT:
            raise Problem(f"{path}: the weight '{entry.name}' has no data and is not of float32; expected data")
        shape = [size.dim_value for size in tensor.shape.dim]
        weight = make_weight(numpy, args.seed, entry.name, shape)
        graph.initializer.append(onnx.numpy_helper.from_array(weight, entry.name))
        graph.input.remove(entry)
    data = f"filled_{len(os.listdir(folder))}.onnx"
    filled = os.path.join(folder, data)
    onnx.save_model(model, filled, save_as_external_data=True, location=data + ".data")
    return open_model(engine, args, filled, path), filled


def shape_of(entry, path, dims):
    """A dimension without a name is called INPUT.AXIS, as by optimize."""
    names = [size if size is not None else f"{entry.name}.{axis}" for axis, size in enumerate(entry.shape)]
    shape = [name if isinstance(name, int) else dims.get(name) for name in names]
    if None in shape:
        name = names[shape.index(None)]
        raise Problem(f"{path}: input '{entry.name}' has the dynamic dimension {name}; expected --dim {name}=SIZE")
    return shape


def dynamic_dimensions(session):
    return {size or f"{entry.name}.{axis}" for entry in session.get_inputs() for axis, size in enumerate(entry.shape)
            if not isinstance(size, int)}


def make_inputs(numpy, args, session):
    """By name: floats are normal, integers below what --below says, each input from a stream of its own."""
    entries = session.get_inputs()
    named = dynamic_dimensions(session)
    integral = [entry.name for entry in entries if entry.type in INTEGERS]
    for flag, given, known in (("--dim", args.dim, sorted(named)), ("--below", args.below, integral)):
        for name in given:
            if name not in known:
                raise Problem(f"{flag} {name}: {args.model} has none of this name; "
                              f"expected one of: {', '.join(known) or 'none'}")
    inputs = {}
    for number, entry in enumerate(entries):
        random = numpy.random.default_rng([args.seed, number])
        shape = shape_of(entry, args.model, args.dim)
        if entry.type in FLOATS:
            inputs[entry.name] = random.standard_normal(shape).astype(FLOATS[entry.type])
        elif entry.type in INTEGERS:
            inputs[entry.name] = random.integers(0, args.below.get(entry.name, 2), shape).astype(INTEGERS[entry.type])
        elif entry.type == "tensor(bool)":
            inputs[entry.name] = random.integers(0, 2, shape).astype(bool)
        else:
            raise Problem(f"{args.model}: input '{entry.name}' is a {entry.type}; expected floats, integers or bool")
    return inputs


class Model:
    """A session and what it is fed with."""

    def __init__(self, session, path, inputs, engine="onnxruntime"):
        self.session, self.path, self.engine = session, path, engine
        self.feed = {}
        for entry in session.get_inputs():
            if entry.name not in inputs:
                raise Problem(f"{path}: has the input '{entry.name}', which the original has not; "
                              "expected the same inputs")
            shape = list(inputs[entry.name].shape)
            fixed = all(not isinstance(size, int) or size == given for size, given in zip(entry.shape, shape))
            if len(entry.shape) != len(shape) or not fixed:
                raise Problem(f"{path}: input '{entry.name}' is {entry.shape} and the original's is {shape}; "
                              "expected a model that was optimized for these sizes")
            self.feed[entry.name] = inputs[entry.name]
        self.outputs = [entry.name for entry in session.get_outputs()]

    def run(self):
        """Seconds, and the outputs."""
        try:
            start = time.perf_counter()
            found = self.session.run(None, self.feed)
            return time.perf_counter() - start, found
        except Exception as e:  # as above
            raise Problem(f"{self.path}: {self.engine} does not run it: {one_line(e)}") from e


def relative_error(numpy, found, expected):
    """The largest difference over the largest finite magnitude that is expected; infinite where one of two elements is
    no finite number and they are not the same infinity, or where the shapes differ."""
    if found.shape != expected.shape:
        return math.inf
    if expected.size == 0:
        return 0.0
    found, expected = found.astype(numpy.float64), expected.astype(numpy.float64)
    magnitudes = numpy.abs(expected[numpy.isfinite(expected)])
    largest = max(magnitudes.max(initial=0.0), sys.float_info.min)
    with numpy.errstate(invalid="ignore"):
        error = numpy.where(found == expected, 0.0, numpy.abs(found - expected)).max()
    return float(error / largest) if math.isfinite(error) else math.inf


def compare_outputs(numpy, original, optimized):
    if original.outputs != optimized.outputs:
            raise Problem(f"{optimized.path}: outputs {', '.join(optimized.outputs)}; "
                          f"expected {', '.join(original.outputs)}")
    pairs = list(zip(original.outputs, original.run()[1], optimized.run()[1]))
    for name, expected, _ in pairs:
        if expected.size and not expected.any():
            raise Problem(f"{original.path}: output '{name}' is 0 everywhere, so comparing it says nothing; "
                          "expected another --seed")
    return [{"name": name, "shape": list(expected.shape), "max_rel_error": relative_error(numpy, found, expected)}
            for name, expected, found in pairs]


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out) + bytes([number])


def write_tensor(path, name, value):
    """A serialized TensorProto: dims, data_type, name and raw_data are the fields 1, 2, 8 and 9."""
    if value.dtype.name not in TENSOR_TYPES:
        raise Problem(f"'{name}' holds {value.dtype.name}; expected one of: {', '.join(TENSOR_TYPES)}")
    dims = b"".join(b"\x08" + varint(size) for size in value.shape)
    texts = b"".join(tag + varint(len(text)) + text
                     for tag, text in ((b"\x42", name.encode()), (b"\x4a", value.tobytes())))
    with open(path, "wb") as file:
        file.write(dims + b"\x10" + varint(TENSOR_TYPES[value.dtype.name]) + texts)


def compare_with_unity(args, file, inputs, outputs, folder):
    """The largest relative error of unity's outputs against onnxruntime's; None where there is no run_model."""
    program = shutil.which(args.run_model)
    if program is None:
        return None
    data, result = os.path.join(folder, "data"), os.path.join(folder, "run.json")
    os.makedirs(data)
    for kind, tensors in (("input", inputs.items()), ("output", outputs)):
        for number, (name, value) in enumerate(tensors):
            write_tensor(os.path.join(data, f"{kind}_{number}.pb"), name, value)
    sizes = args.dim.items() if file == args.model else ()
    dims = [word for name, size in sizes for word in ("--dim", f"{name}={size}")]
    backend = ["--backend", args.backend] if args.backend else []
    command = [program, file, *dims, *backend, "--data", data, "--tolerance", str(args.tolerance), "--json", result]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if not os.path.isfile(result):
        why = done.stderr.strip().splitlines() or ["it said nothing"]
        raise Problem(f"{program}: exit code {done.returncode}: {why[-1].removeprefix('run_model: ')}")
    with open(result, encoding="utf-8") as found:
        run = json.load(found)
    error = run["max_rel_error"]
    return {"backend": run["backend"], "max_rel_error": math.inf if error is None else error}


def time_both(args, original, optimized):
    """Seconds of runs in turns, the one that goes first changing, so that what disturbs the machine disturbs both."""
    for _ in range(2):
        original.run()
        optimized.run()
    times = {original: [], optimized: []}
    start = time.perf_counter()
    least = min(5, args.runs)
    for turn in range(args.runs):
        if turn >= least and time.perf_counter() - start > args.seconds:
            break
        for model in (original, optimized) if turn % 2 == 0 else (optimized, original):
            times[model].append(model.run()[0])
    return times[original], times[optimized]


def spread(times):
    """The interquartile range over the median."""
    if len(times) < 2:
        return 0.0
    low, median, high = statistics.quantiles(times, n=4)
    return (high - low) / median


def compare(args, scratch):
    numpy, engine = import_engine()
    original, file = open_with_weights(numpy, engine, args, args.model, scratch)
    inputs = make_inputs(numpy, args, original)
    path, result = (args.optimized, args.result) if args.optimized else optimize(args, args.out or scratch)
    unity = unity_times(result) if result else None
    first = Model(original, args.model, inputs)
    second = Model(open_with_weights(numpy, engine, args, path, scratch)[0], path, inputs)
    outputs = compare_outputs(numpy, first, second)
    same = compare_with_unity(args, file, inputs, list(zip(first.outputs, first.run()[1])), scratch)
    before, after = time_both(args, first, second)
    found = {"model": args.model, "optimized": args.optimized or (args.out and path), "dimensions": args.dim,
             "seed": args.seed, "threads": args.threads, "tolerance": args.tolerance,
             "passed": all(output["max_rel_error"] <= args.tolerance for output in outputs),
             "onnxruntime": {"version": engine.__version__, "level": args.level, "runs": len(before),
                             "original_s": statistics.median(before), "optimized_s": statistics.median(after),
                             "ratio": statistics.median(before) / statistics.median(after),
                             "original_spread": spread(before), "optimized_spread": spread(after),
                             "max_rel_error": max(output["max_rel_error"] for output in outputs), "outputs": outputs}}
    if same:
        found["unity_outputs"] = same
        found["passed"] = found["passed"] and same["max_rel_error"] <= args.tolerance
    if unity:
        found["unity"] = unity
        found["unity_over_onnxruntime"] = {"original": unity["original_s"] / found["onnxruntime"]["original_s"],
                                           "optimized": unity["optimized_s"] / found["onnxruntime"]["optimized_s"]}
    return found


def show(found):
    def row(title, original, optimized, rest=""):
        print(f"{title:<32} {original:>14} {optimized:>14}   {rest}".rstrip())

    def times(title, run):
        row(title, f"{run['original_s'] * 1e6:.3f}", f"{run['optimized_s'] * 1e6:.3f}",
            f"{run['ratio']:.3f} times as fast, largest relative error {run['max_rel_error']:.2g}")

    row(f"{os.path.basename(found['model'])}, {found['threads']} threads", "original", "optimized")
    engine = found["onnxruntime"]
    times(f"onnxruntime {engine['version']}, us", engine)
    row("  spread over median", f"{engine['original_spread']:.3f}", f"{engine['optimized_spread']:.3f}")
    if "unity" in found:
        times(f"unity ({found['unity']['backend']}), us", found["unity"])
        ratios = found["unity_over_onnxruntime"]
        row("unity over onnxruntime", f"{ratios['original']:.3f}", f"{ratios['optimized']:.3f}",
            found["unity"].get("device", ""))
    else:
        print("no times of unity: optimize was not told to --run, or there is no --result")
    if "unity_outputs" in found:
        same = found["unity_outputs"]
        print(f"original in unity ({same['backend']}) and onnxruntime: "
              f"largest relative error {same['max_rel_error']:.2g}")
    else:
        print("outputs of unity not compared: there is no program run_model, see --run-model")


def write(path, found):
    # JSON has no infinity: an output that is not a finite number has the error null.
    plain = json.loads(json.dumps(found), parse_constant=lambda _: None)
    # Whole or not at all: a device is written to, a file is replaced.
    whole = path + ".part" if os.path.isfile(path) or not os.path.exists(path) else path
    try:
        with open(whole, "w", encoding="utf-8") as file:
            file.write(json.dumps(plain, indent=2) + "\n")
        if whole != path:
            os.replace(whole, path)
    except OSError as e:
        if whole != path and os.path.exists(whole):
            os.remove(whole)
        raise Problem(f"{path}: {e.strerror}; expected a file that can be written") from e


def main(words):
    args = arguments(words)
    try:
        if args.suite:
            sys.modules["compare_engines"] = sys.modules[__name__]  # what the other module imports: one class Problem
            import engine_suite
            rows = engine_suite.run(args)
            if args.json:
                write(args.json, rows)
            return 0 if any("problem" not in row for row in rows) else 1
        with tempfile.TemporaryDirectory() as scratch:
            if args.out:
                os.makedirs(args.out, exist_ok=True)
            found = compare(args, scratch)
        show(found)
        if args.json:
            write(args.json, found)
        for output in found["onnxruntime"]["outputs"]:
            if not output["max_rel_error"] <= args.tolerance:
                raise Problem(f"output '{output['name']}': relative error {output['max_rel_error']:.2g} "
                              f"in onnxruntime; expected at most {args.tolerance:g}")
        if not found["passed"]:
            raise Problem(f"{args.model}: unity's outputs differ from onnxruntime's "
                          f"by {found['unity_outputs']['max_rel_error']:.2g}; expected at most {args.tolerance:g}")
    except Problem as e:
        print(f"compare_engines: {e}", file=sys.stderr)
        return 1
    except OSError as e:
        print(f"compare_engines: {e.filename}: {e.strerror}; expected a place that can be written", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
