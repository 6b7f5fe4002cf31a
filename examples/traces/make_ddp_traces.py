#!/usr/bin/env python3
"""Makes traces of real training: processes of PyTorch's DistributedDataParallel over gloo, on the CPU, each recorded by
PyTorch's profiler.

usage: make_ddp_traces.py FOLDER [--ranks N] [--steps N] [--width N] [--layers N] [--batch N] [--bucket MB]
                                 [--plan] [--shift US] [--memory] [--venv FOLDER]

Writes FOLDER/rank0.json.gz and so on. With --plan, ranks run the plan that python/unity_plan finds, instead of
DistributedDataParallel, and it is kept as FOLDER/plan.json; this needs the packages onnx and onnxscript, and the
programs in PATH or in the folder UNITY_PROGRAMS. With --shift the clock of rank r is ahead by r * US microseconds,
which FOLDER/clocks.json tells. With --memory they tell of every allocation (profile_memory). Where this Python has no
torch, a virtual environment with torch and numpy is made first (--venv, default: FOLDER/venv), by pip as it is
configured; that takes minutes.
"""
import argparse
import gzip
import json
import os
import pathlib
import subprocess
import sys
import venv

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "python"))

KEPT = {"Input Dims", "Input type", "Sequence number", "External id"}  # of what there is about an operator


def make_model(a):
    import torch
    from torch import nn

    torch.manual_seed(1)
    layers = [m for _ in range(a.layers) for m in (nn.Linear(a.width, a.width), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(a.width, 10)), torch.randn(a.batch, a.width)


def find_plan(a):
    import unity_plan

    model, x = make_model(a)
    unity_plan.find(model, (x,), f"host:1x{a.ranks}", folder=a.folder)
    for name in ("model.onnx", "plan.py"):
        pathlib.Path(a.folder, name).unlink()


def train(rank, a, port):
    import torch
    from torch import distributed, nn
    from torch.profiler import ProfilerActivity, profile, schedule

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", rank=rank, world_size=a.ranks)
    model, x = make_model(a)
    y = torch.randint(0, 10, (a.batch,))
    if a.plan:
        import unity_plan
        model = unity_plan.apply(unity_plan.load(f"{a.folder}/plan.json"), model, "cpu")
    else:
        model = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=a.bucket)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss = nn.CrossEntropyLoss()
    warm = 4
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=a.memory,
                 schedule=schedule(wait=warm - 1, warmup=1, active=a.steps)) as record:
        for _ in range(warm + a.steps):
            optimizer.zero_grad()
            result = model(x)
            loss(result, unity_plan.batch_like(result, y) if a.plan else y).backward()
            optimizer.step()
            record.step()
    record.export_chrome_trace(f"{a.folder}/rank{rank}.json")
    distributed.barrier()


def pack(a):
    """Leaves out what the reader does not read, so that the files are small; shifts clocks."""
    for rank in range(a.ranks):
        path = pathlib.Path(a.folder) / f"rank{rank}.json"
        trace = json.loads(path.read_text())
        for key in ("trace_id", "traceName", "host_name"):
            trace.pop(key, None)
        for e in trace["traceEvents"]:
            if e.get("cat") == "cpu_op" or str(e.get("name")).startswith("gloo:"):
                is_sent = any(part in e["name"] for part in ("c10d", "gloo", "AccumulateGrad"))
                e["args"] = {k: v for k, v in e.get("args", {}).items() if k in KEPT and is_sent}
            if "ts" in e:
                e["ts"] = round(e["ts"] + rank * a.shift, 3)
        trace["traceEvents"] = [e for e in trace["traceEvents"] if e.get("cat") != "fwdbwd"]
        with open(f"{path}.gz", "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as out:
            out.write(json.dumps(trace, separators=(",", ":")).encode())
        path.unlink()
    if a.shift:
        (pathlib.Path(a.folder) / "clocks.json").write_text(json.dumps([r * a.shift for r in range(a.ranks)]))


def free_port():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    for name, default in (("ranks", 2), ("steps", 6), ("width", 512), ("layers", 4), ("batch", 256)):
        p.add_argument(f"--{name}", type=int, default=default)
    p.add_argument("--bucket", type=float, default=1)
    p.add_argument("--shift", type=float, default=0)
    for name in ("plan", "memory"):
        p.add_argument(f"--{name}", action="store_true")
    p.add_argument("--venv")
    return p.parse_args()


def main():
    a = arguments()
    pathlib.Path(a.folder).mkdir(parents=True, exist_ok=True)
    try:
        import torch
    except ImportError:
        folder = pathlib.Path(a.venv or f"{a.folder}/venv")
        python = folder / "bin/python"
        if not python.exists():
            venv.create(folder, with_pip=True)
            subprocess.run([python, "-m", "pip", "install", "--quiet", "torch", "numpy"], check=True)
        sys.exit(subprocess.run([python, *sys.argv]).returncode)
    if a.plan:
        find_plan(a)
    torch.multiprocessing.spawn(train, (a, free_port()), nprocs=a.ranks)
    pack(a)


if __name__ == "__main__":
    main()
