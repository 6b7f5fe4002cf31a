"""Plans on PyTorch: losses under a plan beside plain PyTorch's, and the collectives that run beside the plan's.

    UNITY_PROGRAMS=build/release/bin python test/python/unity_plan_test.py [MODEL...]

Runs 2 and 4 processes with gloo. Says "skipped" and exits with 77 where torch or onnx is absent.
"""

import argparse
import copy
import json
import os
import pathlib
import sys
import tempfile

try:
    import onnx
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
    import torch.nn.functional as F
    from torch import nn
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.debug import CommDebugMode
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "python"))
import unity_plan
from unity_plan import _find

STEPS = 20
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(32, 64)
        self.middle = nn.Linear(64, 64)
        self.down = nn.Linear(64, 16)

    def forward(self, x):
        return self.down(torch.relu(self.middle(torch.relu(self.up(x)))))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.n1 = nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.n2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.register_buffer("mask", torch.ones(8, 8).triu(1).bool(), persistent=False)

    def forward(self, x):
        b, t, c = x.shape
        y = self.n1(x)
        q, k, v = (m(y).view(b, t, self.heads, c // self.heads).transpose(1, 2) for m in (self.q, self.k, self.v))
        scores = ((q @ k.transpose(-1, -2)) * (c // self.heads) ** -0.5).masked_fill(self.mask, -1e4)
        x = x + self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(64, 32)
        self.place = nn.Embedding(8, 32)
        self.register_buffer("places", torch.arange(8), persistent=False)
        self.blocks = nn.ModuleList(Block(32, 4) for _ in range(2))
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 64)

    def forward(self, tokens):
        x = self.tok(tokens) + self.place(self.places)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Norm(nn.Module):
    """Of each sample, as a group norm of one group.

    Statistics of a batch are sums over ranks, which DTensor adds up where it likes: no module begins or ends there.
    """

    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels, 1, 1))
        self.bias = nn.Parameter(torch.zeros(channels, 1, 1))

    def forward(self, x):
        away = x - x.mean((1, 2, 3), keepdim=True)
        return away * (away * away).mean((1, 2, 3), keepdim=True).add(1e-5).rsqrt() * self.weight + self.bias


class Resnet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.n0 = Norm(8)
        self.c1 = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.n1 = Norm(8)
        self.c2 = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.n2 = Norm(8)
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        x = torch.relu(self.n0(self.stem(x)))
        x = torch.relu(x + self.n2(self.c2(torch.relu(self.n1(self.c1(x))))))
        return self.head(x.mean((2, 3)))


class Dlrm(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(40, 16) for _ in range(3))
        self.bottom = nn.Linear(13, 16)
        self.top1 = nn.Linear(32, 32)
        self.top2 = nn.Linear(32, 1)

    def forward(self, dense, a, b, c):
        x = torch.relu(self.bottom(dense))
        rows = torch.stack([x, *(t(i) for t, i in zip(self.tables, (a, b, c)))], 1)
        pairs = (rows @ rows.transpose(1, 2) / 16).reshape(x.shape[0], 16)
        return self.top2(torch.relu(self.top1(torch.cat([x, pairs], 1))))


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * (x * x.pow(2).mean(-1, keepdim=True).add(1e-6).rsqrt())


class LlamaBlock(nn.Module):
    """Rotary positions, keys and values for groups of heads, a gated MLP."""

    def __init__(self, width, heads, shared):
        super().__init__()
        self.heads, self.shared = heads, shared
        self.n1, self.n2 = RmsNorm(width), RmsNorm(width)
        self.q, self.o = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(width, width * shared // heads, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x, cos, sin, mask):
        b, t, c = x.shape
        y = self.n1(x)
        q, k, v = (m(y).view(b, t, -1, c // self.heads).transpose(1, 2) for m in (self.q, self.k, self.v))
        q, k = (z * cos + self.turned(z) * sin for z in (q, k))
        k, v = (self.repeated(z) for z in (k, v))
        scores = (q @ k.transpose(2, 3)) * (c // self.heads) ** -0.5 + mask
        x = x + self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))
        y = self.n2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))

    @staticmethod
    def turned(x):
        half = x.shape[-1] // 2
        return torch.cat([-x[..., half:], x[..., :half]], -1)

    def repeated(self, x):
        b, h, t, d = x.shape
        times = self.heads // self.shared
        return x[:, :, None].expand(b, h, times, t, d).reshape(b, h * times, t, d)


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(64, 32)
        self.register_buffer("frequencies", 1e4 ** (-torch.arange(0, 8, 2) / 8), persistent=False)
        self.blocks = nn.ModuleList(LlamaBlock(32, 4, 2) for _ in range(2))
        self.norm = RmsNorm(32)
        self.head = nn.Linear(32, 64, bias=False)
        self.head.weight = self.tok.weight

    def forward(self, tokens):
        t = tokens.shape[1]
        angles = torch.arange(t).float()[:, None] * self.frequencies
        angles = torch.cat([angles, angles], -1)
        mask = torch.full((t, t), -1e4).triu(1)
        x = self.tok(tokens)
        for block in self.blocks:
            x = block(x, angles.cos(), angles.sin(), mask)
        return self.head(self.norm(x))


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 4, stride=4)
        self.token = nn.Parameter(torch.randn(1, 1, 32))
        self.places = nn.Parameter(torch.randn(1, 5, 32) / 8)
        self.blocks = nn.ModuleList(Block(32, 4) for _ in range(2))
        for block in self.blocks:
            block.mask = torch.zeros(5, 5).bool()
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class InPlace(nn.Module):
    """Changes a tensor that two modules read with one layout, between them."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 8)
        self.down = nn.Linear(8, 8)

    def forward(self, x):
        h = x * 2
        h += self.up(h)
        return self.down(h)


MODELS = {
    "mlp": (Mlp, lambda: (torch.randn(16, 32),)),
    "gpt": (Gpt, lambda: (torch.randint(0, 64, (8, 8)),)),
    "resnet": (Resnet, lambda: (torch.randn(8, 3, 8, 8),)),
    "llama": (Llama, lambda: (torch.randint(0, 64, (8, 8)),)),
    "vit": (Vit, lambda: (torch.randn(8, 3, 8, 8),)),
    "dlrm": (Dlrm, lambda: (torch.randn(16, 13), *(torch.randint(0, 40, (16,)) for _ in range(3)))),
}


def made(name):
    torch.manual_seed(7)
    kind, inputs = MODELS[name]
    module = kind()
    batches = [inputs() for _ in range(STEPS)]
    targets = [torch.randn(module(*batches[0]).shape) for _ in range(STEPS)]
    return module, batches, targets


def plain_losses(name):
    module, batches, targets = made(name)
    steps = torch.optim.SGD(module.parameters(), lr=0.02)
    losses = []
    for batch, target in zip(batches, targets):
        loss = ((module(*batch) - target) ** 2).mean()
        losses.append(loss.item())
        steps.zero_grad()
        loss.backward()
        steps.step()
    return losses


def counts(mode):
    found = dict.fromkeys(KINDS, 0)
    for operator, times in mode.get_comm_counts().items():
        words = str(operator).replace("allreduce", "all_reduce").replace("allgather", "all_gather")
        for kind in KINDS:
            if kind in words or (kind == "all_to_all" and "alltoall" in words):
                found[kind] += times
    return found


def train(name, plan):
    """On this rank, of all."""
    module, batches, targets = made(name)
    unity_plan.apply(plan, module, "cpu")
    steps = torch.optim.SGD(module.parameters(), lr=0.02)
    losses = []
    for batch, target in zip(batches, targets):
        with CommDebugMode() as forward:
            result = module(*batch)
        loss = ((result - unity_plan.batch_like(result, target)) ** 2).mean()
        losses.append(loss.full_tensor().item())
        steps.zero_grad()
        with CommDebugMode() as backward:
            loss.backward()
        with CommDebugMode() as update:
            steps.step()
    ran = [counts(mode) for mode in (forward, backward, update)]
    return {"losses": losses, "ran": {c: sum(r[c] for r in ran) for c in KINDS}}


def in_place_error(ranks):
    """The largest difference from plain PyTorch of a module that changes tensors in place, called with a new batch each
    time and with one that is overwritten."""
    torch.manual_seed(7)
    module = InPlace()
    plain = copy.deepcopy(module)
    layout = unity_plan.Layout([Replicate()], [Shard(0)], ranks=(2, 2))
    plan = unity_plan.Plan(
        mesh=(ranks,), inputs={"x": [Shard(0)]}, modules={"up": layout, "down": layout}, forward={}, backward={},
        parameters={name: unity_plan.Parameter([Shard(0)]) for name, _ in module.named_parameters()})
    unity_plan.apply(plan, module, "cpu")
    off = 0
    fixed = distribute_tensor(torch.zeros(8, 8), module.up.weight.device_mesh, [Shard(0)])
    for _ in range(2):
        batch = torch.randn(8, 8)
        with torch.no_grad():
            fixed.copy_(distribute_tensor(batch, fixed.device_mesh, [Shard(0)], src_data_rank=None))
            for x in (batch, fixed):
                off = max(off, (module(x).full_tensor() - plain(batch)).abs().max().item())
            # as a module of its own
            off = max(off, (module.up(fixed).full_tensor() - plain.up(batch)).abs().max().item())
    return off


class Pool(nn.Module):
    """Its last operator has no parameters, and the result fewer dimensions than that of its product."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8))

    def forward(self, x):
        return torch.relu(x @ self.weight).sum(-1)


def pool_error(ranks):
    """The largest difference from plain PyTorch of a module whose layouts are of values within it."""
    torch.manual_seed(7)
    module = nn.Sequential(Pool())
    plain = copy.deepcopy(module)
    plan = unity_plan.Plan(
        mesh=(ranks,), inputs={"x": [Replicate()]}, forward={}, backward={},
        modules={"0": unity_plan.Layout([Replicate()], [Shard(1)], ranks=(2, 2))},
        parameters={"0.weight": unity_plan.Parameter([Shard(1)])})
    unity_plan.apply(plan, module, "cpu")
    batch = torch.randn(8, 8)
    return (module(batch).full_tensor() - plain(batch)).abs().max().item()


def missing_is_refused(ranks):
    """Whether a parameter that the plan lacks is refused when it gets a gradient, and only then."""
    module = nn.Sequential(nn.Linear(8, 8))
    module.unread = nn.Parameter(torch.ones(1))
    plan = unity_plan.Plan(
        mesh=(ranks,), inputs={"x": [Replicate()]}, modules={}, forward={}, backward={},
        parameters={f"0.{name}": unity_plan.Parameter([Replicate()]) for name in ("weight", "bias")})
    unity_plan.apply(plan, module, "cpu")
    module(torch.randn(8, 8)).sum().backward()
    try:
        (module(torch.randn(8, 8)).sum() * module.unread).sum().backward()
    except RuntimeError as why:
        return str(why) == "unread: a gradient, but the plan has no such parameter; expected the plan of this module"
    return False


class Optional(nn.Module):
    """One layer runs at times, and another one gets no gradients."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(8, 8) for _ in range(3))
        self.is_on = True

    def forward(self, x):
        h = torch.relu(self.first(x))
        return h + self.third(x).detach() + (self.second(h) if self.is_on else 0)


def optional_error(ranks):
    """The largest difference of gradients from plain PyTorch where some parameters of a bucket have none."""
    torch.manual_seed(7)
    module = Optional()
    plain = copy.deepcopy(module)
    plan = unity_plan.Plan(
        mesh=(ranks,), inputs={"x": [Shard(0)]}, modules={}, forward={}, backward={},
        parameters={name: unity_plan.Parameter([Replicate()], reduce=[0], bucket=0)
                    for name, _ in module.named_parameters()})
    unity_plan.apply(plan, module, "cpu")
    off = 0
    for is_on, to_none in ((False, False), (True, False), (True, True), (False, True), (True, True)):
        batch = torch.randn(4 * ranks, 8)
        for one in (module, plain):
            one.is_on = is_on
            one.zero_grad(set_to_none=to_none)
            one(x=batch).sum().backward()
        for (name, mine), theirs in zip(module.named_parameters(), plain.parameters()):
            if theirs.grad is None:
                off += mine.grad is not None
            elif any(p.is_partial() for p in mine.grad.placements):
                off += 1
            else:
                off = max(off, (mine.grad.full_tensor() - theirs.grad).abs().max().item())
    return off


class Attributes(nn.Module):
    """Reads a tensor that is not a buffer, a buffer with two names, and one that is a parameter."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 8)
        self.plain = torch.randn(8)
        self.register_buffer("a", torch.randn(8))
        self.register_buffer("b", self.a)
        self.register_buffer("bias", self.up.bias)

    def forward(self, x):
        return self.up(x * self.a + self.plain) * self.b + self.bias.exp()


def expected_names():
    """Whether the module's ONNX file has each tensor once, and those without a name in the module as constants."""
    with tempfile.TemporaryDirectory() as scratch:
        unity_plan.export_onnx(Attributes(), (torch.randn(2, 8),), pathlib.Path(scratch) / "model.onnx")
        graph = onnx.load(str(pathlib.Path(scratch) / "model.onnx")).graph
    return sorted(w.name for w in graph.initializer) == ["a", "up.bias", "up.weight.T"]


class Transposed(nn.Module):
    """Reads its matrices by permutations, of which one changes nothing, and gives one away transposed."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.second = nn.Parameter(torch.randn(6, 6))

    def forward(self, x):
        return self.first(x) @ self.second.permute(0, 1) @ self.second.permute(1, 0), self.first.weight.t()


def transposed_error():
    """The largest difference between the module and its ONNX file, whose matrices are stored transposed."""
    from onnx.reference import ReferenceEvaluator

    torch.manual_seed(7)
    module = Transposed()
    x = torch.randn(2, 6)
    with tempfile.TemporaryDirectory() as scratch:
        file = pathlib.Path(scratch) / "model.onnx"
        unity_plan.export_onnx(module, (x,), file)
        onnx.checker.check_model(str(file))
        evaluator = ReferenceEvaluator(str(file))
        found = evaluator.run(None, {evaluator.input_names[0]: x.numpy()})
    with torch.no_grad():
        return max((torch.from_numpy(a) - b).abs().max().item() for a, b in zip(found, module(x)))


def expected_shapes():
    """Whether matrices of other shapes than those of the plan are refused."""
    plan = unity_plan.Plan(mesh=(1,), inputs={}, modules={}, forward={}, backward={}, parameters={
        "weight": unity_plan.Parameter([Replicate()], shape=[4, 8]), "bias": unity_plan.Parameter([Replicate()])})
    try:
        unity_plan._apply.check_names(plan, nn.Linear(4, 8))
    except ValueError as why:
        return str(why) == "weight: the shape [8, 4]; expected [4, 8], as the plan has it"
    return False


def expected_refusal():
    """Whether a parameter is refused whose name would say that it is transposed."""
    named = nn.Linear(8, 8)
    named.register_parameter("T", nn.Parameter(torch.ones(8, 8)))
    try:
        unity_plan.export_onnx(nn.Sequential(named), (torch.zeros(1, 8),), "not_written.onnx")
    except ValueError as why:
        return str(why) == "0.T: a matrix named T; expected another name, as .T marks transposed matrices"
    return False


def rank_main(rank, ranks, port, jobs, out):
    torch.set_num_threads(1)  # makes this process's pool of threads, before several threads want it
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    off = max(in_place_error(ranks), pool_error(ranks), optional_error(ranks), 0 if missing_is_refused(ranks) else 1)
    if rank == 0:
        (out / "made_by_hand.json").write_text(json.dumps(off))
    for number, (name, plan) in enumerate(jobs):
        result = train(name, plan)
        if rank == 0:
            (out / f"{number}.json").write_text(json.dumps(result))
    dist.destroy_process_group()


def on_gloo(planned):
    """gloo has no all-to-all: DTensor gathers, and keeps a part."""
    return {**planned, "all_gather": planned["all_gather"] + planned["all_to_all"], "all_to_all": 0}


def by_columns(plan):
    """Tables divided by columns instead of samples: what follows them is an all-to-all."""
    nodes = plan["graph"]["nodes"]
    for one in plan["strategy"]:
        if nodes[one["node"]]["op"] == "embedding":
            first, *_, last = one["dimensions"]
            first["degree"], last["degree"] = last["degree"], first["degree"]
            for task in one["tasks"]:
                task["part"].reverse()
    return plan


def base_of(name):
    """The plan that has to be expressible. Llama's data parallelism transposes the shared table on one device."""
    return "expert" if name == "llama" else "data"


def plans_of(name, ranks, model, folder):
    """The plans of `parallelize` for the model, and one made of them: their files by name."""
    for sync in ((), ("--sync", "bucket=4KB"), ("--sync", "zero=1"), ("--sync", "fsdp")):
        into = folder / "_".join((*sync, name, str(ranks)))
        _find._run(None, "parallelize", model, "--machine", f"p100:1x{ranks}", *_find.SEARCH, *sync, "--plans", into)
        for file in sorted(into.glob("*.json")):
            if not sync or file.stem == base_of(name):
                yield f"{file.stem} {sync[1]}" if sync else file.stem, file
        if name == "dlrm" and not sync:
            columns = into / "columns.json"
            columns.write_text(json.dumps(by_columns(json.loads((into / "data.json").read_text()))))
            yield "columns", columns


def judged(plan, result, plain):
    """The cells of a row, and whether all is well."""
    off = max(abs(a - b) for a, b in zip(result["losses"], plain))
    planned = {c: on_gloo(plan.forward)[c] + on_gloo(plan.backward)[c] for c in KINDS}
    cells = [f"{ran}" if ran == planned[c] else f"{ran}, not {planned[c]}" for c, ran in result["ran"].items()]
    return [f"{off:.1e}", *cells], off < 1e-5 and result["ran"] == planned


def main():
    options = argparse.ArgumentParser()
    options.add_argument("models", nargs="*", default=list(MODELS))
    options.add_argument("--ranks", type=int, nargs="*", default=[2, 4])
    chosen = options.parse_args()
    torch.set_num_threads(1)
    plain = {name: plain_losses(name) for name in chosen.models}
    is_right = expected_refusal() and expected_shapes() and expected_names() and transposed_error() < 1e-5
    failed = 0 if is_right else 1
    print("| ranks | model | plan | largest difference of 20 losses | all-reduce | all-gather | reduce-scatter "
          "| all-to-all |\n|---:|---|---|---:|---:|---:|---:|---:|", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for name in chosen.models:
            module, batches, _ = made(name)
            unity_plan.export_onnx(module, batches[0], folder / f"{name}.onnx")
        for ranks in chosen.ranks:
            jobs = []
            kinds = []
            for name in chosen.models:
                for kind, file in plans_of(name, ranks, folder / f"{name}.onnx", folder):
                    try:
                        jobs.append((name, unity_plan.load(file)))
                        kinds.append(kind)
                    except RuntimeError as why:
                        print(f"| {ranks} | {name} | {kind} | {why} | | | | |", flush=True)
                        failed += kind.startswith(base_of(name)) or kind == "columns"
            out = folder / f"on_{ranks}"
            out.mkdir()
            port = 29600 + os.getpid() % 300 + ranks
            # fork: the ranks need not load torch again
            mp.start_processes(rank_main, (ranks, port, jobs, out), nprocs=ranks, start_method="fork")
            failed += json.loads((out / "made_by_hand.json").read_text()) > 1e-5
            for number, ((name, plan), kind) in enumerate(zip(jobs, kinds)):
                cells, good = judged(plan, json.loads((out / f"{number}.json").read_text()), plain[name])
                failed += not good
                print(f"| {ranks} | {name} | {kind} | {' | '.join(cells)} |", flush=True)
    print("failed" if failed else "passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
