#!/usr/bin/env python3
"""Unity's search compared with all others at equal time, by running `parallelize`.

usage: joint_tables.py PARALLELIZE TABLE... [--seconds S] [--results FILE] [--models NAME,...] [--nodes N,...]
       [--onnx FOLDER] [--samples NAME] [--show]

joint       the seven networks of Unger et al. (OSDI 2022), table 1, on 6 to 192 GPUs of Summit: data parallel, expert,
            FlexFlow's search, the sequential one and Unity's, with S seconds each
monotone    BERT-Large on 96 GPUs, kinds of parallelism added one by one (figure 15a)
order       the same search, with the same kinds of parallelism, on the graph that TASO's finds, and with substitutions
            (figure 15b), on 96 GPUs
ablation    the search without parts of it (table 2), and its result; > marks a search that reached S seconds
real        ONNX files of FOLDER on 8, 64 and 512 A100 and H100: Unity compared with data, tensor and Megatron's
            parallelism, pipelines, FSDP and ZeRO 1
times       searches of 5, 30 and 60 seconds, compared with four times as long ones

Each run is appended to FILE, one JSON per line, when it ends. Runs in FILE are not repeated, so an interrupted table
can be resumed. --show: prints only known results. --models, --nodes: restrict the table. --samples: the files' dynamic
dimension of samples, which is set to eight per device. All runs have one thread and --seed 1; times are those of the
machine that runs this.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

NETWORKS = ["resnext50", "inception_v3", "bert_large", "dlrm", "xdl", "candle_uno", "mlp"]
SUMMIT_NODES = [1, 2, 4, 8, 16, 32]
DGX_NODES = [1, 8, 64]
KINDS = ["data,model", "reduction", "special", "spatial", "placement", "pipeline"]  # in the order of figure 15a
GPT3 = "gpt?layers=96&hidden=12288&heads=96&seq=2048&vocab=51200"


class Runs:
    """Results of `parallelize` by arguments, stored in a file."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.file = pathlib.Path(arguments.results) if arguments.results else None
        self.known = {}
        if self.file and self.file.exists():
            for line in self.file.read_text().splitlines():
                row = json.loads(line)
                self.known[row["command"]] = row

    def __call__(self, model, machine, seconds, *more):
        """The result with its strategies by name, or None."""
        command = [model, "--machine", machine, "--search", "unity", "--seed", "1", "--threads", "1",
                   "--budget", f"{seconds:g}s", *more]
        key = " ".join(command)
        if key not in self.known and not self.arguments.show:
            self.known[key] = {"command": key, **self.run(command)}
            if self.file:
                with self.file.open("a") as f:
                    f.write(json.dumps(self.known[key]) + "\n")
        result = self.known.get(key, {}).get("result")
        return result and {**result, "by_name": {s["name"]: s for s in result["strategies"]}}

    def run(self, command):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "result.json"
            done = subprocess.run([self.arguments.program, *command, "--json", str(path)], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True)
            if done.returncode != 0:
                message = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
                print(" ".join(command) + ": " + message[0], file=sys.stderr, flush=True)
                return {"error": message[0]}
            return {"result": json.loads(path.read_text())}


def print_row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def print_head(*cells):
    print_row(*cells)
    print_row(*["---"] * len(cells))


def shown(strategy):
    """Milliseconds of an iteration; marks a strategy that does not fit in memory."""
    if strategy is None:
        return "-"
    return f"{strategy['iteration_s'] * 1e3:.2f}{'' if not strategy['out_of_memory'] else ' (no memory)'}"


def best(strategies):
    """Seconds of the fastest strategy that fits in memory."""
    return min((s["iteration_s"] for s in strategies if s and not s["out_of_memory"]), default=None)


def ratio(others, own):
    """Time of the best of the others over that of `own`."""
    least = best(others)
    return "-" if least is None or own is None or own["out_of_memory"] else f"{least / own['iteration_s']:.3f}"


def joint(runs, a):
    names = ("data", "expert", "flexflow", "sequential", "unity")
    print_head("network", "GPUs", *(f"{n}, ms" for n in names), "best other / unity", "gap", "unity, s",
               "flexflow, s", "sequential, s", "stages")
    lost = rows = 0
    for model in a.models or NETWORKS:
        for nodes in a.nodes or SUMMIT_NODES:
            r = runs(f"zoo:{model}", f"summit:{nodes}x6", a.seconds, "--baseline-budget", f"{a.seconds:g}s",
                     "--baselines", "data,expert,flexflow,sequential")
            if r is None:
                continue
            all_of = [r["by_name"][n] for n in names]
            faster = ratio(all_of[:-1], all_of[-1])
            rows += 1
            lost += faster != "-" and float(faster) < 1
            print_row(model, r["devices"], *(shown(s) for s in all_of), faster, f"{r['gap']:.0%}",
                      f"{r['search']['seconds']:.1f}", *(f"{r['baselines'][n]['seconds']:.1f}" for n in names[2:4]),
                      all_of[-1]["stages"])
    print(f"\n{rows} rows, {lost} of them where another is faster")


def monotone(runs, a):
    print_head("network", "GPUs", "kinds", "iteration, ms", "faster than the first")
    for model in a.models or ["bert_large"]:
        for nodes in a.nodes or [16]:
            first = None
            for i in range(len(KINDS)):
                kinds = ",".join(KINDS[:i + 1])
                r = runs(f"zoo:{model}", f"summit:{nodes}x6", a.seconds, "--dims", kinds, "--baselines", "none")
                if r:
                    first = first or best(r["strategies"])
                    print_row(model, r["devices"], kinds, shown(r["strategies"][-1]),
                              ratio([{"iteration_s": first, "out_of_memory": []}], r["strategies"][-1]))


def order(runs, a):
    kinds = "data,model,reduction,special,spatial"
    print_head("network", "GPUs", "TASO, then the search, ms", "joint, ms", "faster")
    for model in a.models or NETWORKS:
        for nodes in a.nodes or [16]:
            r = runs(f"zoo:{model}", f"summit:{nodes}x6", a.seconds, "--dims", kinds, "--baselines", "taso",
                     "--baseline-budget", f"{a.seconds:g}s")
            if r:
                taso, own = r["by_name"]["taso"], r["by_name"]["unity"]
                print_row(model, r["devices"], shown(taso), shown(own), ratio([taso], own))


def ablation(runs, a):
    ways = {"all": (), "without segments": ("split",), "without segments and cache": ("split", "cache"),
            "without dynamic programming": ("dp",)}
    print_head("network", "GPUs", *(f"{w}, s" for w in ways), *(f"{w}, ms" for w in ways))
    for model in a.models or ["resnext50"]:
        for nodes in a.nodes or SUMMIT_NODES[:4]:
            found = [runs(f"zoo:{model}", f"summit:{nodes}x6", a.seconds, "--baselines", "none", "--max-proposals", "0",
                          *(("--ablate", ",".join(parts)) if parts else ())) for parts in ways.values()]
            if all(found):
                searches = [r["search"] for r in found]
                print_row(model, 6 * nodes,
                          *(f"{'> ' if s['stop_reason'] == 'time' else ''}{s['seconds']:.1f}" for s in searches),
                          *(shown(r["by_name"]["unity"]) for r in found))


def real(runs, a):
    names = ("data", "model", "expert", "flexflow", "sequential")
    print_head("model", "machine", *(f"{n}, ms" for n in names), "pipeline, ms", "FSDP, ms", "unity, ms",
               "unity, updates divided, ms", "best other / best of unity")
    for file in sorted(pathlib.Path(a.onnx).glob("*.onnx")):
        if a.models and file.stem not in a.models:
            continue
        for machine in ("dgx_a100", "dgx_h100"):
            for nodes in a.nodes or DGX_NODES:
                samples = ["--dim", f"{a.samples}={64 * nodes}"] if a.samples else []
                where = (str(file), f"{machine}:{nodes}x8", a.seconds)
                alone = runs(*where, "--baseline-budget", f"{a.seconds:g}s", *samples)
                stages = runs(*where, "--dims", "data,pipeline", "--baselines", "none", *samples)
                zero = runs(*where, "--baselines", "data", "--sync", "zero=1", *samples)
                if not alone:
                    continue
                of = [alone["by_name"].get(n) for n in names]
                pipeline = stages and stages["by_name"]["unity"]
                fsdp = zero and zero["by_name"]["data"]
                own, divided = alone["by_name"]["unity"], zero and zero["by_name"]["unity"]
                chosen = divided if divided and best([divided]) and best([divided]) < (best([own]) or 1e9) else own
                print_row(file.stem, f"{machine}:{nodes}x8", *(shown(s) for s in [*of, pipeline, fsdp, own, divided]),
                          ratio([*of, pipeline, fsdp], chosen))


def times(runs, a):
    print_head("network", "machine", "seconds", "iteration, ms", "search, s", "with four times as many, ms", "better")
    for model, machine, seconds, more in (
            ("resnext50", "summit:8x6", 5, ()), ("inception_v3", "summit:32x6", 30, ()),
            (GPT3, "dgx_a100:128x8", 60, ("--element", "bfloat16", "--optimizer", "adam"))):
        if a.models and model.split("?")[0] not in a.models:
            continue
        short, long = (runs(f"zoo:{model}", machine, s * a.seconds / 60, "--baselines", "none", *more)
                       for s in (seconds, 4 * seconds))
        if short and long:
            own, other = short["by_name"]["unity"], long["by_name"]["unity"]
            print_row(model.split("?")[0], machine, f"{seconds * a.seconds / 60:g}", shown(own),
                      f"{short['search']['seconds']:.1f}", shown(other), ratio([own], other))


TABLES = {"joint": joint, "monotone": monotone, "order": order, "ablation": ablation, "real": real, "times": times}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("tables", nargs="+", choices=TABLES)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--results", default="")
    parser.add_argument("--models", type=lambda s: s.split(","), default=[])
    parser.add_argument("--nodes", type=lambda s: [int(n) for n in s.split(",")], default=[])
    parser.add_argument("--onnx", default=".")
    parser.add_argument("--samples", default="")
    parser.add_argument("--show", action="store_true")
    arguments = parser.parse_args()
    runs = Runs(arguments)
    for i, table in enumerate(arguments.tables):
        print(("\n" if i else "") + table + "\n")
        TABLES[table](runs, arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
