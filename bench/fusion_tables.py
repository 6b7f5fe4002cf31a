#!/usr/bin/env python3
"""Simulated results of `fuse` for six networks: compared with rules, by method, by alpha and beta.

usage: fusion_tables.py FUSE [--budget 10s] [--only rules,methods,alpha,beta]

Machines are DisCo's clusters: 12 GTX 1080 Ti and 64 T4. As in DisCo's table 1, speed-ups are the fastest rule's time
over that of the result, minus 1; for full overlap (FO), over the larger of the result's compute and all-reduces."""
import argparse, json, subprocess, sys, tempfile

MODELS = {
    "VGG-19": "zoo:vgg19?batch=16",
    "ResNet-50": "zoo:resnet50?batch=32",
    "Transformer": "zoo:transformer?batch=32",
    "RNNLM": "zoo:rnnlm?batch=32",
    "BERT": "zoo:bert?batch=8",
    "Reformer": "zoo:reformer?batch=2",
}
MACHINES = ["1080ti:6x2", "t4:8x8"]
PAPER = {"VGG-19": "8.6, 10.1", "ResNet-50": "12.5, 9.6", "Transformer": "26.7, 20.6", "RNNLM": "5.1, 8.6",
         "BERT": "18.5, 13.7", "Reformer": "13.4, 14.5"}


def fuse(program, model, machine, *more):
    with tempfile.NamedTemporaryFile() as f:
        done = subprocess.run([program, model, "--machine", machine, "--seed", "1", "--json", f.name, *more],
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{model} on {machine}: {done.stderr}")
        r = json.load(open(f.name))
    r["all"] = {s["name"]: s for s in r["strategies"]}
    return r


def rules(program, budget):
    print("| model | machine | no fusion | XLA | TVM | TVM, DDP | DDP | Horovod | found | bound | speed-up | FO | "
          "paper | candidates/s | search, s |\n" + "|---" * 15 + "|")
    for name, model in MODELS.items():
        for m, machine in enumerate(MACHINES):
            r = fuse(program, model, machine, "--budget", budget)
            times = {n: s["iteration_s"] for n, s in r["all"].items()}
            found = r["all"]["disco"]
            rule = min(t for n, t in times.items() if n != "disco")
            overlap = max(found["compute_s"], found["communication_s"])
            cells = [times[n] for n in ["no_fusion", "xla", "tvm", "tvm_ddp", "ddp", "horovod", "disco"]]
            print(f"| {name} | {machine} | " + " | ".join(f"{1e3 * t:.2f}" for t in [*cells, r["bound_s"]]) +
                  f" | {100 * (rule / times['disco'] - 1):.1f}% | {100 * (rule / overlap - 1):.1f}% | "
                  f"{PAPER[name].split(', ')[m]}% | {r['search']['candidates'] / r['search']['seconds']:,.0f} | "
                  f"{r['search']['seconds']:.1f} |", flush=True)


def methods(program, budget):
    sets = ["fuse", "fuse,duplicate", "fuse,join", "fuse,duplicate,join", "join", "fuse,duplicate,join,separate"]
    print("| model | " + " | ".join(s.replace(",", ", ") for s in sets) + " |\n" + "|---" * (len(sets) + 1) + "|")
    for name, model in MODELS.items():
        times = [fuse(program, model, MACHINES[0], "--budget", budget, "--methods", s)["all"]["disco"]["iteration_s"]
                 for s in sets]
        print(f"| {name} | " + " | ".join(f"{1e3 * t:.2f}" for t in times) + " |", flush=True)


def parameter(program, budget, flag, values):
    print(f"| model | " + " | ".join(f"{flag[2:]} = {v}" for v in values) + " |\n" + "|---" * (len(values) + 1) + "|")
    for name, model in MODELS.items():
        cells = []
        for v in values:
            r = fuse(program, model, MACHINES[0], "--budget", budget, "--refine", "off", "--samples", "1", "--methods",
                     "fuse,duplicate,join", flag, str(v))
            cells.append(f"{1e3 * r['all']['disco']['iteration_s']:.2f} / {r['search']['seconds']:.2f}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fuse")
    parser.add_argument("--budget", default="10s")
    parser.add_argument("--only", default="rules,methods,alpha,beta")
    a = parser.parse_args()
    tables = {"rules": lambda: rules(a.fuse, a.budget), "methods": lambda: methods(a.fuse, a.budget),
              "alpha": lambda: parameter(a.fuse, a.budget, "--alpha", [1, 1.05, 1.1]),
              "beta": lambda: parameter(a.fuse, a.budget, "--beta", [1, 5, 10, 30])}
    for name in a.only.split(","):
        print(f"\n{name}, ms" + ("" if name in ("rules", "methods") else " / search, s") + "\n")
        tables[name]()


main()
