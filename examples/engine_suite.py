#!/usr/bin/env python3
"""The table of `compare_engines.py --suite FOLDER`: models in onnxruntime as they are, after onnxsim, and after unity.

Each model of the folder is optimized for the engine (`optimize --target onnxruntime`, with what follows `--` among the
flags) and by onnxsim where that is installed. What comes of it runs in turns with the original, which the engine
optimizes itself as it does by default, and with the original at its level `off`. A model that stops is a row with the
reason, and the others go on.
"""

import glob
import json
import math
import os
import statistics
import subprocess
import tempfile
import time

import compare_engines as engines

LEAST_ROUNDS = 5


def optimized(args, path, folder):
    """What optimize wrote, and its JSON."""
    result = os.path.join(folder, "result.json")
    dims = [word for name, size in args.dim.items() for word in ("--dim", f"{name}={size}")]
    command = [args.optimize, path, *dims, "--target", "onnxruntime", "--engine-threads", str(args.threads), "--seed",
               str(args.seed), *args.flags, "--out", folder, "--json", result]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except OSError as e:
        raise engines.Problem(f"{args.optimize}: {e.strerror}; expected the program optimize, see --optimize") from e
    if done.returncode != 0:
        why = done.stderr.strip().splitlines() or ["it said nothing"]
        raise engines.Problem(f"optimize, exit code {done.returncode}: {why[-1].removeprefix('optimize: ')}")
    with open(result, encoding="utf-8") as file:
        return os.path.join(folder, "optimized.onnx"), json.load(file)


def simplified(path, folder):
    """What onnxsim makes of a file; None where it is not installed."""
    try:
        import onnx
        import onnxsim
    except ImportError:
        return None
    try:
        model, same = onnxsim.simplify(onnx.load(path))
    except Exception as e:  # of any kind
        raise engines.Problem(f"onnxsim: {type(e).__name__}: {engines.one_line(e)}") from e
    if not same:
        raise engines.Problem("onnxsim: its own check finds other outputs")
    file = os.path.join(folder, "simplified.onnx")
    onnx.save_model(model, file, save_as_external_data=True, location="simplified.onnx.data")
    return file


def in_turns(models, runs, seconds):
    """Seconds of runs by name; the model that begins changes."""
    names = list(models)
    for name in names:
        models[name].run()
        models[name].run()
    times = {name: [] for name in names}
    start = time.perf_counter()
    for turn in range(runs):
        if turn >= LEAST_ROUNDS and time.perf_counter() - start > seconds:
            break
        for place in range(len(names)):
            name = names[(turn + place) % len(names)]
            times[name].append(models[name].run()[0])
    return times


def speed(times, name):
    """How many times as fast as the original: the median over the rounds."""
    return statistics.median(a / b for a, b in zip(times["original"], times[name]))


def row_of(args, path):
    numpy, engine = engines.import_engine()
    with tempfile.TemporaryDirectory() as folder:
        files = {"original": path, "off": path}
        row = {"model": os.path.basename(path)}
        try:
            files["onnxsim"] = simplified(path, folder)
        except engines.Problem as e:
            row["onnxsim_problem"] = str(e)
        files["unity"], result = optimized(args, path, folder)
        row["measured"] = result["measured"]
        row["opaque"] = sum(entry["count"] for entry in result["opaque"])
        models, inputs = {}, None
        for name, file in files.items():
            if file is None:
                continue
            level, args.level = args.level, "off" if name == "off" else args.level
            try:
                session = engines.open_model(engine, args, file)
                if inputs is None:
                    args.model = path
                    inputs = engines.make_inputs(numpy, args, session)
                models[name] = engines.Model(session, file, inputs)
            finally:
                args.level = level
        for name in models:
            if name in ("onnxsim", "unity"):
                pairs = zip(models["original"].run()[1], models[name].run()[1])
                row[name + "_error"] = max(engines.relative_error(numpy, found, expected) for expected, found in pairs)
                if not row[name + "_error"] <= args.tolerance and name == "unity":
                    raise engines.Problem(f"outputs differ by {row['unity_error']:.2g}; "
                                          f"expected at most {args.tolerance:g}")
        times = in_turns(models, args.runs, args.seconds)
        row["original_s"] = statistics.median(times["original"])
        row["rounds"] = len(times["original"])
        row["spread"] = engines.spread(times["original"])
        for name in models:
            if name != "original":
                row[name] = speed(times, name)
        return row


def geometric_mean(numbers):
    return math.exp(statistics.fmean(math.log(x) for x in numbers)) if numbers else math.nan


def show(row):
    if "problem" in row:
        print(f"| {row['model']} | {row['problem']} | | | | | |", flush=True)
        return
    def times(name):
        return f"{row[name]:.3f}" if name in row else row.get(name + "_problem", "not there")
    kept = "kept" if row["measured"]["kept_original"] else "rewritten"
    original = f"{row['original_s'] * 1e3:.2f}"
    print(f"| {row['model']} | {original} | {times('off')} | {times('onnxsim')} | {times('unity')} | {kept} | "
          f"{100 * row['spread']:.0f}% |", flush=True)


def run(args):
    """The rows; prints them as they come."""
    paths = sorted(glob.glob(os.path.join(args.model, "*.onnx")))
    if not paths:
        raise engines.Problem(f"{args.model}: has no .onnx file; expected a folder of models")
    numpy, engine = engines.import_engine()
    print(f"onnxruntime {engine.__version__}, {args.threads} threads: milliseconds, and times as fast as the original",
          end="\n\n")
    print("| model | original, ms | not optimized | onnxsim | unity | unity's file | spread |")
    print("|---|---|---|---|---|---|---|")
    rows = []
    for path in paths:
        try:
            row = row_of(args, path)
        except engines.Problem as e:
            row = {"model": os.path.basename(path), "problem": str(e)}
        rows.append(row)
        show(row)
    timed = [row for row in rows if "problem" not in row]
    for name in ("off", "onnxsim", "unity"):
        speeds = [row[name] for row in timed if name in row]
        if speeds:
            print(f"{name}: {len(speeds)} models, geometric mean {geometric_mean(speeds):.3f} times as fast, least "
                  f"{min(speeds):.3f}, most {max(speeds):.3f}, {sum(s >= 1.05 for s in speeds)} faster by 5%")
    return rows
