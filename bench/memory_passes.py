#!/usr/bin/env python3
"""Memory and time of recomputation and gradient accumulation: predicted by `replay` from a trace, and measured.

usage: memory_passes.py BIN_DIR [MODEL...]

BIN_DIR has parallelize, train and replay. Each model trains data parallel on two ranks (threads of this machine) and is
traced; `replay --optimize` predicts the passes from that trace; then the ranks train with them. Corresponds to tables 3
and 4 of dPRO's paper.
Exit code 1 if predicted memory is off by more than 5%."""
import json, pathlib, subprocess, sys, tempfile

MODELS = [
    "zoo:bert_large?layers=2&hidden=128&heads=4&seq=64&vocab=500&batch=8",
    "zoo:gpt?layers=2&hidden=128&heads=4&seq=64&vocab=500&batch=8",
    "zoo:resnext50?form=ae&image=64&hidden=16&batch=4",
    "zoo:squeezenet1_1?image=96&batch=8",
]
WAYS = {"recomputation": ["--recompute", "products"], "accumulation=2": ["--microbatches", "2"],
        "accumulation=4": ["--microbatches", "4"]}


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    programs = pathlib.Path(sys.argv[1])
    worst = 0
    print("| model | | predicted, MB | held, MB | error | predicted, ms | measured, ms |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for model in sys.argv[2:] or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)

            def run(*command):
                done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
                if done.returncode != 0:
                    sys.exit(f"{' '.join(map(str, command))}: {done.stderr}")

            def train(*more):
                run(programs / "train", path / "plans/data.json", "--backend", "cpu", "--steps", 7, "--loss",
                    "cross_entropy", "--rate", "1e-6", "--json", path / "run.json", *more)
                result = json.loads((path / "run.json").read_text())
                return max(r["bytes"] for r in result["memory"]), result["measured_iteration_s"]

            run(programs / "parallelize", model, "--machine", "p100:1x2", "--search", "flexflow", "--budget", "0.1s",
                "--random", 0, "--plans", path / "plans")
            held = {"kept": train("--trace", path / "trace.json", "--trace-steps", 5)}
            run(programs / "replay", path / "trace.json", "--optimize", "--memory", "1KB", "--passes", ",".join(WAYS),
                "--json", path / "replay.json")
            found = json.loads((path / "replay.json").read_text())["optimized"]
            predicted = {"kept": (found["memory"]["before_bytes"], found["before_s"])}
            predicted |= {t["passes"][0]: (t["peak_bytes"], t["iteration_s"]) for t in found["tried"]
                          if len(t["passes"]) == 1}
            held |= {name: train(*flags) for name, flags in WAYS.items()}
            for name, (size, time) in predicted.items():
                real, measured = held[name]
                error = size / real - 1
                worst = max(worst, abs(error))
                print(f"| {f'`{model}`' if name == 'kept' else ''} | {name} | {size / 1e6:.2f} | {real / 1e6:.2f} | "
                      f"{100 * error:+.1f}% | {time * 1e3:.1f} | {measured * 1e3:.1f} |", flush=True)
    print(f"memory is off by {100 * worst:.1f}% at most")
    return worst > 0.05


sys.exit(main())
