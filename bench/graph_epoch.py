#!/usr/bin/env python3
"""An epoch of a graph convolutional network on a graph of Reddit's size, here and in other libraries.

usage: graph_epoch.py PROGRAM [--vertices N] [--edges N] [--features N] [--hidden N] [--classes N] [--epochs N]
                      [--threads N] [--dropout P] [--rounds N] [--peer NAME=PYTHON]... [--keep DIR]

PROGRAM is train_graph. A peer is torch (CSR matrices), pyg (PyTorch Geometric) or dgl, and the interpreter that has it.
All train the same network on the same files with Adam, in float32, with equally many threads; products run before sums
where that makes rows shorter. Runs alternate, each in a process of its own. The table has the median over all epochs
except each process's first, and the peak memory of a process. Peers normalize edges once, before the first epoch.

The graph is random: edges by Chung and Lu's model, whose expected degrees fall as a power of the vertex's rank, in both
directions. Degrees reach about 50 times their mean, as Reddit's do. Vertex numbers are independent of degrees, so
neighbours' rows are scattered in memory. Needs numpy here and in peers."""
import argparse
import json
import multiprocessing
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time


def make_graph(prefix, a):
    """Writes ROC's files, with a self-loop at each vertex."""
    import numpy

    random = numpy.random.default_rng(1)
    weights = (numpy.arange(a.vertices) + 30.0) ** -0.55
    cumulative = numpy.cumsum(weights / weights.sum())
    number = random.permutation(a.vertices).astype(numpy.int64)
    keys = numpy.empty(0, numpy.int64)
    wanted = a.edges // 2
    while len(keys) < wanted:
        count = int((wanted - len(keys)) * 1.05) + 1000
        ends = [number[numpy.minimum(numpy.searchsorted(cumulative, random.random(count)), a.vertices - 1)]
                for _ in range(2)]
        low, high = numpy.minimum(*ends), numpy.maximum(*ends)
        keys = numpy.unique(numpy.concatenate([keys, (low * a.vertices + high)[low != high]]))
    keys = random.permutation(keys)[:wanted]
    low, high = keys // a.vertices, keys % a.vertices
    own = numpy.arange(a.vertices, dtype=numpy.int64)
    keys = numpy.sort(numpy.concatenate([keys, high * a.vertices + low, own * a.vertices + own]))
    ends = numpy.cumsum(numpy.bincount(keys // a.vertices, minlength=a.vertices))
    with open(f"{prefix}.add_self_edge.lux", "wb") as file:
        numpy.array([a.vertices], numpy.uint32).tofile(file)
        numpy.array([len(keys)], numpy.uint64).tofile(file)
        ends.astype(numpy.uint64).tofile(file)
        (keys % a.vertices).astype(numpy.uint32).tofile(file)
    random.random((a.vertices, a.features), numpy.float32).tofile(f"{prefix}.feats.bin")
    pathlib.Path(f"{prefix}.label").write_text(
        "".join(f"{x}\n" for x in random.integers(0, a.classes, a.vertices)))
    roles = ["Train\n"] * 6 + ["Val\n"] * 2 + ["Test\n"] * 2
    pathlib.Path(f"{prefix}.mask").write_text("".join(roles[x] for x in random.integers(0, 10, a.vertices)))
    degrees = numpy.diff(numpy.concatenate([[0], ends]))
    print(f"{a.vertices} vertices, {len(keys)} edges, degrees {degrees.min()} to {degrees.max()}", flush=True)


def read_graph(prefix):
    """Reads the ends and sources of in-edges, features, labels, and the training mask."""
    import numpy

    with open(f"{prefix}.add_self_edge.lux", "rb") as file:
        vertices = int(numpy.fromfile(file, numpy.uint32, 1)[0])
        numpy.fromfile(file, numpy.uint64, 1)
        ends = numpy.fromfile(file, numpy.uint64, vertices).astype(numpy.int64)
        sources = numpy.fromfile(file, numpy.uint32).astype(numpy.int32)
    features = numpy.fromfile(f"{prefix}.feats.bin", numpy.float32).reshape(vertices, -1)
    labels = numpy.array(pathlib.Path(f"{prefix}.label").read_text().split(), numpy.int64)
    mask = numpy.array([x == "Train" for x in pathlib.Path(f"{prefix}.mask").read_text().split()])
    return ends, sources, features, labels, mask


def peer(a):
    """Runs in a peer's interpreter; prints seconds per epoch and memory as JSON."""
    import numpy
    import torch
    from torch.nn import functional

    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    ends, sources, features, labels, mask = read_graph(a.prefix)
    offsets = numpy.concatenate([[0], ends])
    degrees = numpy.diff(offsets)
    features, labels, mask = torch.from_numpy(features), torch.from_numpy(labels), torch.from_numpy(mask)
    widths = [features.shape[1], a.hidden, a.classes]

    def adjacency():  # symmetric, so equal to its transpose
        scale = (degrees ** -0.5).astype(numpy.float32)
        values = numpy.repeat(scale, degrees) * scale[sources]
        return torch.sparse_csr_tensor(torch.from_numpy(offsets.astype(numpy.int32)), torch.from_numpy(sources),
                                       torch.from_numpy(values), (len(degrees), len(degrees)))

    if a.peer == "dgl":
        import dgl
        from dgl.nn.pytorch import GraphConv

        graph = dgl.graph(("csc", (torch.from_numpy(offsets), torch.from_numpy(sources.astype(numpy.int64)), [])),
                          num_nodes=len(degrees)).int().formats(["csc", "csr"])
        graph.create_formats_()
        layers = torch.nn.ModuleList([GraphConv(m, n, norm="both", bias=False) for m, n in zip(widths, widths[1:])])
        apply = lambda layer, x: layer(graph, x)
    elif a.peer == "pyg":
        from torch_geometric.nn import GCNConv

        matrix = adjacency()
        layers = torch.nn.ModuleList([GCNConv(m, n, normalize=False, bias=False) for m, n in zip(widths, widths[1:])])
        apply = lambda layer, x: layer(x, matrix)
    else:
        class Sum(torch.autograd.Function):
            @staticmethod
            def forward(context, x):
                return torch.sparse.mm(matrix, x)

            @staticmethod
            def backward(context, cotangent):
                return torch.sparse.mm(matrix, cotangent)

        matrix = adjacency()
        layers = torch.nn.ModuleList([torch.nn.Linear(m, n, bias=False) for m, n in zip(widths, widths[1:])])
        apply = lambda layer, x: Sum.apply(layer(x))
    optimizer = torch.optim.Adam(layers.parameters(), lr=0.01)
    seconds, losses = [], []
    for _ in range(a.epochs):
        start = time.perf_counter()
        x = functional.dropout(features, a.dropout) if a.dropout > 0 else features
        x = functional.relu(apply(layers[0], x))
        x = functional.dropout(x, a.dropout) if a.dropout > 0 else x
        loss = functional.cross_entropy(apply(layers[1], x)[mask], labels[mask])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"seconds": seconds, "losses": losses,
                      "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


def ours(program, prefix, a):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "result.json"
        process = subprocess.Popen(
            [program, prefix, "--model", "gcn", "--layers", "2", "--hidden", str(a.hidden), "--dropout",
             str(a.dropout), "--epochs", str(a.epochs), "--ranks", "1", "--raw-features", "--json", str(out)],
            stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": str(a.threads)})
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            sys.exit(f"{program} failed")
        epochs = json.loads(out.read_text())["epochs"]
    return {"seconds": [e["seconds"] for e in epochs], "losses": [e["loss"] for e in epochs],
            "bytes": usage.ru_maxrss * 1024}


def theirs(name, python, prefix, a):
    command = [python, "-W", "ignore", __file__, "peer", "--peer", name, "--prefix", prefix]
    for flag in ("hidden", "classes", "epochs", "threads", "dropout"):
        command += [f"--{flag}", str(getattr(a, flag))]
    # Enables large pages for peers as well; unity's allocator requests them.
    environment = {**os.environ, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "OMP_NUM_THREADS": str(a.threads)}
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout
    return json.loads(output.splitlines()[-1])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("program")
    p.add_argument("--vertices", type=int, default=232_965)
    p.add_argument("--edges", type=int, default=114_615_892, help="without those from a vertex to itself")
    p.add_argument("--features", type=int, default=602)
    p.add_argument("--hidden", type=int, default=256)
    p.add_argument("--classes", type=int, default=41)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--dropout", type=float, default=0.0)
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--peer", action="append", default=[])
    p.add_argument("--prefix", help="of files that are there")
    a = p.parse_args()
    if a.program == "peer":
        a.peer = a.peer[0]
        return peer(a)
    with tempfile.TemporaryDirectory() as folder:
        prefix = a.prefix or str(pathlib.Path(folder) / "graph")
        if not pathlib.Path(f"{prefix}.add_self_edge.lux").exists():
            # In a process of its own: the peak memory of this one counts as that of each process it starts.
            maker = multiprocessing.Process(target=make_graph, args=(prefix, a))
            maker.start()
            maker.join()
            if maker.exitcode != 0:
                sys.exit("the graph could not be made")
        runs = {}
        for _ in range(a.rounds):
            runs.setdefault("unity", []).append(ours(a.program, prefix, a))
            for name, python in (x.split("=", 1) for x in a.peer):
                runs.setdefault(name, []).append(theirs(name, python, prefix, a))
        gathered = 4 * 2 * (a.hidden + a.classes) * (a.edges + a.vertices)
        base = statistics.median(s for r in runs["unity"] for s in r["seconds"][1:])
        print("| library | seconds an epoch | over unity's | rows read, GB/s | memory, GB | loss, last |")
        print("|" + "---|" * 6)
        for name, all in runs.items():
            epoch = statistics.median(s for r in all for s in r["seconds"][1:])
            print(f"| {name} | {epoch:.2f} | {epoch / base:.2f} | {gathered / epoch * 1e-9:.1f} | "
                  f"{max(r['bytes'] for r in all) * 1e-9:.1f} | {all[0]['losses'][-1]:.4f} |", flush=True)


if __name__ == "__main__":
    main()
