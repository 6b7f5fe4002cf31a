#!/usr/bin/env python3
"""How well `replay` predicts steps from other steps of a trace: the tables of docs/performance.md.

usage: replay_tables.py BIN_DIR published|trained|large [--traces DIR] [--rounds N]

published  traces in DIR (HolisticTraceAnalysis) and in examples/traces (PyTorch's DistributedDataParallel), beside
           Daydream's method
trained    ranks of `train` (threads, backend cpu) under data and tensor parallelism, N runs of each model
large      seconds to read and replay traces of 100 MB, which large_trace.py makes of smaller ones

BIN_DIR has parallelize, train and replay. A step is replayed with the mean durations of the other steps. The error of
the average iteration is that of the rank where it is largest.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES = HERE.parent / "examples/traces"
MODELS = [("zoo:bert_large?layers=2&hidden=256&heads=4&seq=64&vocab=2000&batch=16", 2, "data"),
          ("zoo:bert_large?layers=2&hidden=256&heads=4&seq=64&vocab=2000&batch=16", 2, "model"),
          ("zoo:bert_large?layers=2&hidden=256&heads=4&seq=64&vocab=2000&batch=16", 4, "data"),
          ("zoo:mlp?layers=4&hidden=1024&batch=512", 2, "data"), ("zoo:mlp?layers=4&hidden=1024&batch=512", 2, "model"),
          ("zoo:mlp?layers=4&hidden=1024&batch=512", 4, "data"),
          ("zoo:dlrm?form=ae&batch=16384&hidden=64&vocab=20000", 2, "data"),
          ("zoo:dlrm?form=ae&batch=16384&hidden=64&vocab=20000", 4, "data")]


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr.strip()}")


def replayed(programs, folder, *traces):
    run(programs / "replay", *traces, "--json", folder / "replay.json")
    return json.loads((folder / "replay.json").read_text())


def largest(errors):
    return f"{100 * max(map(abs, errors)):.1f}%"


def row(*cells):
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def head(*cells):
    row(*cells)
    row(*["---"] * len(cells))


def published(a, folder):
    traces = {"hta_trace_diff_control": [a.traces / "hta_trace_diff_control_control.json.gz"],
              "hta_trace_diff_test": [a.traces / "hta_trace_diff_test_test.json.gz"],
              "hta_trace_filter_sampled": [a.traces / f"hta_trace_filter_sampled_rank-{r}.json.gz" for r in (0, 1)],
              "examples/traces/ddp_2.tar.gz": [EXAMPLES / "ddp_2.tar.gz"],
              "examples/traces/ddp_4.tar.gz": [EXAMPLES / "ddp_4.tar.gz"]}
    head("trace", "ranks", "steps", "largest error of a step", "Daydream's", "error of the average iteration")
    for name, files in traces.items():
        r = replayed(a.programs, folder, *files)
        row(f"`{name}`", len(r["ranks"]), len(r["steps"]), largest(s["error"] for s in r["steps"]),
            largest(s["coarse_error"] for s in r["steps"]), largest([r["iteration"]["error"]]))


def trained(a, folder):
    head("model", "ranks", "by", "step, ms", "largest error of a step on a rank, in each run",
         "of the average iteration")
    for model, ranks, by in MODELS:
        run(a.programs / "parallelize", model, "--machine", f"p100:1x{ranks}", "--search", "flexflow", "--budget",
            "0.1s", "--random", 0, "--plans", folder / "plans")
        results = []
        for _ in range(a.rounds):
            run(a.programs / "train", folder / f"plans/{by}.json", "--backend", "cpu", "--steps", 9, "--trace",
                folder / "trace.json", "--trace-steps", 6)
            results.append(replayed(a.programs, folder, folder / "trace.json"))
        times = [1e3 * s["measured_s"] for r in results for s in r["steps"]]
        row(f"`{model}`", ranks, by, f"{min(times):.0f} to {max(times):.0f}",
            ", ".join(largest(rank["error"] for s in r["steps"] for rank in s["ranks"]) for r in results),
            largest(rank["error"] for r in results for rank in r["ranks"]))


def large(a, folder):
    run("tar", "-xzf", EXAMPLES / "ddp_2.tar.gz", "-C", folder)
    first = sorted(p for p in folder.rglob("*.json*") if p.name != "replay.json")[0]
    sources = {"hta_trace_diff_control": a.traces / "hta_trace_diff_control_control.json.gz",
               "hta_trace_filter_sampled_rank-0": a.traces / "hta_trace_filter_sampled_rank-0.json.gz",
               "a rank of ddp_2.tar.gz": first}
    head("trace", "MB", "events", "steps", "read and replayed, s")
    for name, source in sources.items():
        file = folder / "large.json"
        run(sys.executable, HERE / "large_trace.py", source, file, 100)
        start = time.perf_counter()
        r = replayed(a.programs, folder, file)
        row(name, f"{file.stat().st_size / 1e6:.0f}", f"{r['events']:,}", f"{len(r['steps']):,}",
            f"{time.perf_counter() - start:.1f}")


TABLES = {"published": published, "trained": trained, "large": large}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--traces", type=pathlib.Path, default=HERE.parent.parent / "shared/data/traces")
    parser.add_argument("--rounds", type=int, default=3)
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        TABLES[a.table](a, pathlib.Path(folder))


if __name__ == "__main__":
    main()
