"""Plans on PyTorch, recorded by its profiler: `replay --plan` finds the collectives that the plan has.

    UNITY_PROGRAMS=build/release/bin python test/python/replay_plan_test.py [MODEL...]

Runs 2 processes with gloo. Says "skipped" and exits with 77 where torch or onnx is absent.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import unity_plan_test as models  # exits where a package is absent

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import unity_plan
from torch.profiler import ProfilerActivity, profile, schedule
from unity_plan import _find

RANKS = 2
STEPS = 4


def record(rank, name, folder, port):
    torch.set_num_threads(1)  # first: see unity_plan_test
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    module, batches, targets = models.made(name)
    unity_plan.apply(unity_plan.load(f"{folder}/plan.json"), module, "cpu")
    steps = torch.optim.SGD(module.parameters(), lr=0.02)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True,
                 schedule=schedule(wait=1, warmup=1, active=STEPS)) as recorded:
        for batch, target in list(zip(batches, targets))[:STEPS + 2]:
            result = module(*batch)
            ((result - unity_plan.batch_like(result, target)) ** 2).mean().backward()
            steps.step()
            steps.zero_grad()
            recorded.step()
    recorded.export_chrome_trace(f"{folder}/rank{rank}.json")
    dist.barrier()


def row(name, plan, port):
    """A line on the plan, and whether its collectives ran."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "plan.json").write_text(plan.read_text())
        mp.spawn(record, (name, folder, port), nprocs=RANKS)
        files = [f"{folder}/rank{r}.json" for r in range(RANKS)]
        replay = pathlib.Path(os.environ.get("UNITY_PROGRAMS", ""), "replay")
        subprocess.run([replay, *files, "--plan", f"{folder}/plan.json", "--json", f"{folder}/result.json"], check=True,
                       stdout=subprocess.DEVNULL)
        beside = json.loads(pathlib.Path(folder, "result.json").read_text())["plan"]
    ran = dict.fromkeys(models.KINDS, 0)
    planned = dict.fromkeys(models.KINDS, 0)
    for c in beside["collectives"]:
        # gloo has no all-to-all: DTensor gathers instead.
        kind = "all_gather" if c["kind"] == "all_to_all" else c["kind"]
        ran[kind] = ran.get(kind, 0) + c["recorded"]
        planned[kind] = planned.get(kind, 0) + (c["planned"] or 0)
    agrees = all(abs(ran[kind] - planned[kind]) < 1e-9 for kind in models.KINDS)
    replayed, simulated = (f"{beside[k]['iteration_s'] * 1e3:.2f} ms" for k in ("replayed", "simulated"))
    line = f"{name:8} {plan.stem:8} ran {ran}, planned {planned}; {replayed} replayed, {simulated} simulated"
    return line, agrees


def main():
    wrong = 0
    for number, name in enumerate(sys.argv[1:] or ("mlp", "gpt", "dlrm")):
        module, batches, _ = models.made(name)
        with tempfile.TemporaryDirectory() as scratch:
            unity_plan.export_onnx(module, batches[0], f"{scratch}/model.onnx")
            _find._run(None, "parallelize", f"{scratch}/model.onnx", "--machine", f"host:1x{RANKS}", *_find.SEARCH,
                       "--plans", f"{scratch}/plans")
            for k, plan in enumerate(sorted(pathlib.Path(scratch, "plans").glob("*.json"))):
                try:
                    unity_plan.load(plan)
                except RuntimeError as why:
                    print(f"{name:8} {plan.stem:8} not for PyTorch: {why}")
                    continue
                line, agrees = row(name, plan, 29600 + 10 * number + k)
                print(line, "" if agrees else "WRONG")
                wrong += not agrees
    print("all collectives ran" if wrong == 0 else f"{wrong} plans with other collectives")
    sys.exit(wrong != 0)


if __name__ == "__main__":
    main()
