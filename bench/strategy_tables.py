#!/usr/bin/env python3
"""The tables of docs/performance.md on strategies, by running `parallelize`.

usage: strategy_tables.py PARALLELIZE strategies|scaling|times|long [--threads N] [--scale F]

strategies  six networks on 64 K80 and 16 P100: data parallel, expert and searched, with the ratios of Jia's
            dissertation (2020), figures 3.6 and 3.7
scaling     DLRM and Candle Uno on 6 to 96 GPUs of Summit (section 3.7.3, figure 3.11)
times       the 30 cells of table 3.4: a search of a fiftieth of the paper's time, at least half a second
long        nmt on 64 K80: the same search for 43.8 s (a fiftieth of the paper's 2,190 s) and for 20 times as long, with
            the defaults, which may end it before, and with flags that were tuned for this network

--scale: budgets times F. Every row is one run with --seed 1; times are of the machine that runs this.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

NETWORKS = ["alexnet", "resnet101", "inception_v3", "rnntc", "rnnlm", "nmt"]

# Table 3.4: seconds of the delta simulation algorithm on 4, 8, 16, 32 and 64 GPUs.
PAPER_SECONDS = {
    "alexnet": [0.04, 0.13, 0.48, 1.8, 5.9],
    "resnet101": [0.4, 1.4, 7.3, 33, 158],
    "inception_v3": [4.1, 17, 77, 298, 1278],
    "rnntc": [7.5, 39, 170, 516, 1489],
    "rnnlm": [9.2, 31, 121, 342, 969],
    "nmt": [16, 65, 328, 701, 2190],
}


def search(arguments, model, machine, seconds, *more):
    """The JSON result of one run."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "result.json"
        command = [arguments.program, f"zoo:{model}", "--machine", machine,
                   "--budget", f"{seconds * arguments.scale:.3f}s", "--seed", "1",
                   "--threads", str(arguments.threads), "--json", str(path), *more]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        result = json.loads(path.read_text())
    result["by_name"] = {s["name"]: s for s in result["strategies"]}
    return result


def shown(strategy):
    """Milliseconds of an iteration; marks a strategy that does not fit in memory."""
    return f"{strategy['iteration_s'] * 1e3:.2f}{'' if not strategy['out_of_memory'] else ' (no memory)'}"


def print_row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def strategies(arguments):
    print_row("network", "machine", "data, ms", "expert, ms", "searched, ms", "data / searched", "expert / searched",
              "moved: data / searched", "computing alone, ms", "computing: searched / data", "proposals")
    print_row(*["---"] * 11)
    for machine, seconds in (("k80:16x4", 40), ("p100:4x4", 20)):
        for model in NETWORKS:
            r = search(arguments, model, machine, seconds, "--random", "0")
            data, expert, best = (r["by_name"][n] for n in ("data", "expert", "flexflow"))
            print_row(model, machine, shown(data), shown(expert), shown(best),
                      f"{data['iteration_s'] / best['iteration_s']:.2f}",
                      f"{expert['iteration_s'] / best['iteration_s']:.2f}",
                      f"{data['communication_bytes'] / max(1, best['communication_bytes']):.2f}",
                      f"{r['compute_bound_s'] * 1e3:.2f}", f"{best['compute_s'] / data['compute_s']:.2f}",
                      r["search"]["proposals"])


def scaling(arguments):
    print_row("network", "GPUs", "data, ms", "model, ms", "searched, ms", "samples/s: data", "model", "searched",
              "searched / best other")
    print_row(*["---"] * 9)
    for model, batch in (("dlrm", 1024), ("candle_uno", 256)):
        for nodes in (1, 2, 4, 8, 16):
            r = search(arguments, model, f"summit:{nodes}x6", 10)
            rows = [r["by_name"][n] for n in ("data", "model", "flexflow")]
            rates = [batch * r["devices"] / s["iteration_s"] for s in rows]
            print_row(model, r["devices"], *(shown(s) for s in rows), *(f"{x:,.0f}" for x in rates),
                      f"{rates[2] / max(rates[:2]):.2f}")


def times(arguments):
    print_row("network", "GPUs", "paper, s", "ours, s", "proposals", "stopped", "data / searched")
    print_row(*["---"] * 7)
    for model in NETWORKS:
        for i, seconds in enumerate(PAPER_SECONDS[model]):
            devices = 4 << i
            r = search(arguments, model, f"k80:{devices // 4}x4", max(0.5, seconds / 50), "--random", "0")
            best = r["by_name"]["flexflow"]["iteration_s"]
            print_row(model, devices, seconds, f"{r['search']['seconds']:.2f}", r["search"]["proposals"],
                      r["search"]["stop_reason"], f"{r['by_name']['data']['iteration_s'] / best:.3f}")


def long(arguments):
    print_row("flags", "search of nmt on 64 K80, s", "proposals", "iteration, ms", "stopped")
    print_row(*["---"] * 5)
    for flags in ((), ("--patience", "1", "--unit-share", "0.9", "--spread", "0.4")):
        for seconds in (43.8, 876):
            r = search(arguments, "nmt", "k80:16x4", seconds, "--random", "0", *flags)
            print_row(" ".join(flags) or "defaults", f"{r['search']['seconds']:.1f}", r["search"]["proposals"],
                      shown(r["by_name"]["flexflow"]), r["search"]["stop_reason"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("table", choices=["strategies", "scaling", "times", "long"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--scale", type=float, default=1.0)
    arguments = parser.parse_args()
    {"strategies": strategies, "scaling": scaling, "times": times, "long": long}[arguments.table](arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
