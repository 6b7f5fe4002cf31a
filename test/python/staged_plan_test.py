"""Plans with stages, micro-batches and recomputation on PyTorch, beside plain PyTorch.

    UNITY_PROGRAMS=build/release/bin python test/python/staged_plan_test.py [CASE...]

Runs 2 and 4 processes with gloo: compares 20 losses, and counts collectives, sends and runs of modules. Says "skipped"
and exits with 77 where torch or onnx is absent.
"""

import argparse
import contextlib
import dataclasses
import functools
import json
import operator
import os
import pathlib
import sys
import tempfile

from unity_plan_test import KINDS, STEPS, Gpt, counts, on_gloo  # exits with 77 where torch is absent

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.profiler import ProfilerActivity, profile

import unity_plan
from unity_plan import _find

MICROBATCHES = 4


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return torch.relu(self.down(torch.relu(self.up(x))))


def chain():
    return nn.Sequential(nn.Linear(32, 16), Layer(16), Layer(16), nn.Linear(16, 8))


MODELS = {
    "mlp": (chain, lambda samples: (torch.randn(samples, 32),)),
    "gpt": (Gpt, lambda samples: (torch.randint(0, 64, (samples, 8)),)),
}
# First modules of stages, as the operators that read their parameters.
HALVES = {"mlp": ("2.up",), "gpt": ("blocks.1.n1",)}
QUARTERS = {"mlp": ("1.up", "2.up", "3"), "gpt": ("blocks.0.n1", "blocks.1.n1", "norm")}
# For `parallelize` to find stages, of 2 micro-batches here.
WITH_STAGES = ("--search", "unity", "--keep-graph", "--dims", "data,pipeline", "--stages", "2", "--max-proposals", "0",
               "--baselines", "none")
LAYERS = {"mlp": ("1", "2"), "gpt": ("blocks.0", "blocks.1")}


@dataclasses.dataclass(frozen=True)
class Case:
    """A plan made from one that `parallelize` writes for one stage; "found": one that has stages itself."""

    ranks: int
    model: str
    groups: int = 1
    cuts: tuple = ()
    schedule: str = "one_forward_one_backward"
    microbatches: int = 1
    recomputed: tuple = ()
    plan: str = "data"

    def name(self):
        words = [self.model, str(self.ranks), self.plan]
        if self.cuts:
            words += [f"{len(self.cuts) + 1} stages on {self.groups}", self.schedule]
        words += [f"{self.microbatches} micro-batches"] if self.microbatches > 1 else []
        return ", ".join(words + (["recomputed"] if self.recomputed else []))


def cases():
    for model in MODELS:
        for schedule in ("one_forward_one_backward", "gpipe"):
            yield Case(2, model, 2, HALVES[model], schedule, MICROBATCHES)
        yield Case(2, model, 2, QUARTERS[model], "interleaved", MICROBATCHES)
        yield Case(2, model, 2, HALVES[model], microbatches=MICROBATCHES, recomputed=LAYERS[model])
        yield Case(2, model, microbatches=MICROBATCHES)
        for plan in ("data", "expert"):
            yield Case(2, model, recomputed=LAYERS[model], plan=plan)
            yield Case(4, model, 2, HALVES[model], microbatches=MICROBATCHES, plan=plan)
            yield Case(4, model, 2, HALVES[model], "gpipe", MICROBATCHES, LAYERS[model], plan)
        yield Case(4, model, 2, microbatches=2, plan="found")
        yield Case(4, model, 4, QUARTERS[model], microbatches=MICROBATCHES)
        yield Case(4, model, 2, QUARTERS[model], "interleaved", MICROBATCHES)


def made(case):
    torch.manual_seed(7)
    kind, inputs = MODELS[case.model]
    module = kind()
    samples = 8 if case.plan == "found" else 8 * case.microbatches
    batches = [inputs(samples) for _ in range(STEPS)]
    targets = [torch.randn(module(*batches[0]).shape) for _ in range(STEPS)]
    return module, batches, targets


def square(result, target):
    return ((result - target) ** 2).mean()


def plain_losses(case):
    module, batches, targets = made(case)
    steps = torch.optim.SGD(module.parameters(), lr=0.02)
    losses = []
    for batch, target in zip(batches, targets):
        loss = square(module(*batch), target)
        losses.append(loss.item())
        steps.zero_grad()
        loss.backward()
        steps.step()
    return losses


def reads(node, nodes, module):
    """Whether an operator reads a parameter of the module."""
    names = (nodes[i]["attributes"].get("name", "") for i in node["operands"] if nodes[i]["op"] == "weight")
    return any(name.startswith(module + ".") for name in names)


def plan_of(case, one, machine):
    """The plan of one stage's devices as that of all stages."""
    plan = {**one, "machine": machine}
    plan.pop("predicted", None)
    plan.pop("mesh", None)
    nodes = plan["graph"]["nodes"]
    each = case.ranks // case.groups
    stage_of = {}
    stage = 0
    for number, node in enumerate(nodes):
        while stage < len(case.cuts) and reads(node, nodes, case.cuts[stage]):
            stage += 1
        stage_of[number] = stage
    for part in plan["strategy"]:
        for task in part["tasks"]:
            node, gpu = task["device"].split("/gpu")
            task["device"] = f"{node}/gpu{int(gpu) + stage_of[part['node']] % case.groups * each}"
    if case.groups > 1 or case.microbatches > 1:
        stages = [rank // each for rank in range(case.ranks)]
        plan["pipeline"] = {"microbatches": case.microbatches, "stages": stages, "schedule": case.schedule}
        if case.schedule == "interleaved":
            plan["pipeline"]["chunks"] = (len(case.cuts) + 1) // case.groups
    again = []
    operators = [n for n, node in enumerate(nodes) if node["operands"]]
    for module in case.recomputed:
        own = [i for i, n in enumerate(operators) if reads(nodes[n], nodes, module)]
        kept = own[-1] + 1  # the last one, which adds, or is a relu
        again += operators[own[0]:kept]
    if again:
        plan["recomputed"] = again
    return plan


def watch(module, name, runs):
    """Counts runs of the module's first child, if this stage has it."""
    def ran(*_):
        runs[name] = runs.get(name, 0) + 1

    for child in list(module.get_submodule(name).children())[:1]:
        child.register_forward_pre_hook(ran)


def train(case, plan):
    """On this rank, of all."""
    module, batches, targets = made(case)
    staged = None
    if plan.pipeline:
        example = tuple(x.chunk(case.microbatches)[0] for x in batches[0])
        staged = unity_plan.pipeline(plan, module, example, square, "cpu")
        parts = list(staged.parts.values())
    else:
        parts = [unity_plan.apply(plan, module, "cpu")]
    runs = {}
    for part in parts:
        for name in LAYERS[case.model]:
            if name in dict(part.named_modules()):
                watch(part, name, runs)
    steps = torch.optim.SGD([p for part in parts for p in part.parameters()], lr=0.02)
    losses = []
    for number, (batch, target) in enumerate(zip(batches, targets)):
        runs.clear()
        steps.zero_grad()
        with contextlib.ExitStack() as stack:
            if number == STEPS - 2:
                seen = stack.enter_context(profile(activities=[ProfilerActivity.CPU]))
            if number == STEPS - 1:  # not with the profile, in which what the mode passes on counts twice
                mode = stack.enter_context(CommDebugMode())
            if staged:
                loss = staged.step(*batch, target=target)
            else:
                loss = accumulated(case, module, batch, target)
        if loss is not None:
            losses.append((loss.full_tensor() if isinstance(loss, DTensor) else loss).item())
        steps.step()
    events = {e.key: e.count for e in seen.key_averages()}
    return {"losses": losses, "ran": counts(mode), "runs": runs, "sends": events.get("c10d::send", 0),
            "receives": events.get("c10d::recv_", 0)}


def accumulated(case, module, batch, target):
    """Gradients of all micro-batches are added up, one after another."""
    losses = []
    for x, y in zip(zip(*(b.chunk(case.microbatches) for b in batch)), target.chunk(case.microbatches)):
        result = module(*x)
        loss = square(result, unity_plan.batch_like(result, y)) / case.microbatches
        loss.backward()
        losses.append(loss.detach())
    return functools.reduce(operator.add, losses)  # sum() begins with a 0, for which terms would be added up


def rank_main(rank, ranks, port, jobs, out):
    torch.set_num_threads(1)  # makes this process's pool of threads, before several threads want it
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    for number, (case, plan) in enumerate(jobs):
        result = train(case, plan)
        if rank == 0:  # not in the process that forks: its backward passes would leave threads behind
            result["plain"] = plain_losses(case)
        (out / f"{number}_{rank}.json").write_text(json.dumps(result))
        dist.barrier()
    dist.destroy_process_group()


def judged(case, plan, results):
    """The cells of a row, and whether all is well."""
    each = case.ranks // case.groups
    losses = next(r["losses"] for r in results if r["losses"])
    off = max(abs(a - b) for a, b in zip(losses, results[0]["plain"], strict=True))
    ran = {c: sum(r["ran"][c] for r in results[::each]) for c in KINDS}
    planned = {c: on_gloo(plan.forward)[c] + on_gloo(plan.backward)[c] for c in KINDS}
    cuts = plan.pipeline.cuts if plan.pipeline else []
    sent = case.microbatches * each * sum(c.values + c.gradients for c in cuts)
    sends, receives = (sum(r[way] for r in results) for way in ("sends", "receives"))
    runs = {name: r["runs"][name] for r in results for name in r["runs"]}
    expected = {name: case.microbatches * (2 if name in case.recomputed else 1) for name in LAYERS[case.model]}
    cells = [f"{off:.1e}"]
    for found, wanted in [*((ran[c], planned[c]) for c in KINDS), (sends, sent), (receives, sent)]:
        cells.append(f"{found}" if found == wanted else f"{found}, not {wanted}")
    cells.append(" ".join(map(str, runs.values())))
    return cells, off < 1e-5 and ran == planned and sends == receives == sent and runs == expected


def main():
    options = argparse.ArgumentParser()
    options.add_argument("cases", nargs="*", help="words that all have to be in a case's name")
    chosen = options.parse_args()
    torch.set_num_threads(1)
    failed = 0
    print("| case | largest difference of 20 losses | all-reduce | all-gather | reduce-scatter | all-to-all | sends "
          "| receives | runs of layers |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        written = {}
        for model in MODELS:
            module, batches, _ = made(Case(1, model))
            unity_plan.export_onnx(module, batches[0], folder / f"{model}.onnx")
            for ranks in (1, 2, 4):
                into = folder / f"{model}_{ranks}"
                _find._run(None, "parallelize", folder / f"{model}.onnx", "--machine", f"p100:1x{ranks}",
                           *_find.SEARCH, "--plans", into)
                for file in into.glob("*.json"):
                    written[model, ranks, file.stem] = file.read_text()
            _find._run(None, "parallelize", folder / f"{model}.onnx", "--machine", "p100:1x4", *WITH_STAGES, "--out",
                       folder / f"{model}_found")
        for ranks in (2, 4):
            jobs = []
            for case in cases():
                if case.ranks != ranks or not all(word in case.name() for word in chosen.cases):
                    continue
                file = folder / f"{case.model}_found" / "plan.json"
                if case.plan != "found":
                    one = json.loads(written[case.model, ranks // case.groups, case.plan])
                    machine = json.loads(written[case.model, ranks, "data"])["machine"]
                    file = folder / "case.json"
                    file.write_text(json.dumps(plan_of(case, one, machine)))
                try:
                    jobs.append((case, unity_plan.load(file)))
                except RuntimeError as why:
                    failed += 1
                    print(f"| {case.name()} | {why} |", flush=True)
            if not jobs:  # ranks that leave at once take the store with them while others still look for it
                continue
            out = folder / f"on_{ranks}"
            out.mkdir()
            port = 29900 + os.getpid() % 300 + ranks
            mp.start_processes(rank_main, (ranks, port, jobs, out), nprocs=ranks, start_method="fork")
            for number, (case, plan) in enumerate(jobs):
                results = [json.loads((out / f"{number}_{rank}.json").read_text()) for rank in range(ranks)]
                cells, good = judged(case, plan, results)
                failed += not good
                print(f"| {case.name()} | {' | '.join(cells)} |", flush=True)
    print("failed" if failed else "passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
