"""Distributes a module by a plan: parameters, arguments and results of modules become DTensors on one mesh."""

import dataclasses
import functools
import itertools
import math

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import implicit_replication
from torch.utils.checkpoint import checkpoint

from ._onnx import first_names


@dataclasses.dataclass(frozen=True)
class Parameter:
    """The layout of a parameter when its module computes with it: a placement per axis of the mesh.

    reduce: the axes along which gradients are partial sums. Parameters with the same bucket are all-reduced together.
    With share_of, each device along these axes keeps a share of that dimension instead; shares are gathered for
    computing, and gradients are reduce-scattered. Gathered weights wait for the backward pass, or are gathered again
    for it.
    """

    placements: list
    reduce: list = dataclasses.field(default_factory=list)
    bucket: int = -1
    share_of: int = -1
    is_gathered_again: bool = False
    shape: list = None  # None: any


@dataclasses.dataclass(frozen=True)
class Layout:
    """The layouts of a module's first argument (None: unchanged) and of its result.

    Arguments and results with other numbers of dimensions than `ranks` stay as they are: then operators without
    parameters come first or last in the module, and the layouts are of values within it.
    """

    input: list
    output: list
    ranks: tuple


@dataclasses.dataclass(frozen=True)
class Cut:
    """A cut between a stage and the next: before the module with this name, or after it.

    Each micro-batch sends this number of values, with these placements, and receives as many gradients.
    """

    placements: list
    values: int
    gradients: int
    before: str = ""
    after: str = ""


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """Stage i is on group i % groups of the ranks."""

    schedule: str  # of torch.distributed.pipelining
    groups: int
    cuts: list


@dataclasses.dataclass(frozen=True)
class Plan:
    mesh: tuple  # its sizes; of a stage, if there are several
    inputs: dict  # of the whole module, in the order of its arguments: placements
    parameters: dict  # by name: Parameter
    modules: dict  # by name: Layout
    forward: dict  # how many collectives of each kind one iteration runs, on all stages
    backward: dict
    microbatches: int = 1
    pipeline: Pipeline = None
    recomputed: list = dataclasses.field(default_factory=list)  # modules


def apply(plan, module, device_type="cuda"):
    """Distributes the module over the ranks of torch.distributed by the plan, in place, and returns it.

    Every rank calls the module with the whole batch, of which it keeps its part, or with DTensors. Results are
    DTensors. Parameters have to be the same on every rank (the same seed, or the same checkpoint). Gradients are
    complete when backward() returns, or has been called for each micro-batch of the plan.
    """
    if plan.pipeline:
        raise ValueError(f"the plan has {len(plan.pipeline.cuts) + 1} stages; expected unity_plan.pipeline")
    check_ranks(math.prod(plan.mesh))
    check_names(plan, module)
    names = axis_names(plan)
    mesh = init_device_mesh(device_type, tuple(plan.mesh), mesh_dim_names=names)
    lay_out(plan, module, mesh, mesh)
    module.register_forward_pre_hook(
        lambda _, args, named: distribute_arguments(plan.inputs, mesh, args, named), with_kwargs=True)
    recompute(plan, module)
    return module


def axis_names(plan):
    return tuple(f"axis{i}" for i in range(len(plan.mesh)))


def check_ranks(expected):
    if dist.get_world_size() != expected:
        raise ValueError(f"{dist.get_world_size()} ranks; expected {expected}, the devices of the plan")


def lay_out(plan, module, mesh, root):
    """Distributes the module or a stage of it. root: the mesh whose axes have groups."""
    _take_tensors_as_whole()
    _distribute_parameters(plan, module, mesh)
    have = dict(module.named_modules())
    for name, layout in plan.modules.items():
        if name in have and not list(have[name].children()):  # else its own parameters are read within it
            _lay_out(have[name], layout)
    _Reductions(plan, module, mesh, root)


def recompute(plan, module):
    """Makes modules of the plan keep only their arguments, and run again in the backward pass."""
    have = dict(module.named_modules())
    for name in plan.recomputed:
        if name in have:
            have[name].forward = functools.partial(checkpoint, have[name].forward, use_reentrant=False)


_replications = []  # that were entered: one that is collected ends


def _take_tensors_as_whole():
    """Enables implicit replication permanently, as backward passes also read tensors that the module's code made."""
    if not _replications:
        _replications.append(implicit_replication())
        _replications[0].__enter__()


def batch_like(result, tensor):
    """The part of a whole batch that belongs to a module's result: labels, divided like its first dimension."""
    placements = [p if p == Shard(0) else Replicate() for p in result.placements]
    return distribute_tensor(tensor, result.device_mesh, placements, src_data_rank=None)


def check_names(plan, module):
    have = dict(itertools.chain(module.named_parameters(remove_duplicate=False),
                                module.named_buffers(remove_duplicate=False)))
    for name in plan.parameters:
        if name not in have:
            raise ValueError(f"{name}: the module has no such parameter; expected the module of the plan")
        expected, found = plan.parameters[name].shape, list(have[name].shape)
        if expected is not None and found != expected:
            raise ValueError(f"{name}: the shape {found}; expected {expected}, as the plan has it")


def _distribute_parameters(plan, module, mesh):
    """Makes every tensor of the module a DTensor; tensors that are not in the plan are replicated."""
    whole = [Replicate()] * mesh.ndim
    of_tensor = {}  # shared parameters stay one
    first = first_names(module)
    again = {}  # by module: of parameters with shares, whether they are gathered again
    of_owner = {}  # names of modules
    for prefix, owner in module.named_modules():
        of_owner[owner] = prefix
        for table, names in ((owner._parameters, list(owner._parameters)), (owner._buffers, list(owner._buffers))):
            for name in names:
                tensor = table[name]
                if tensor is None:
                    continue
                full = f"{prefix}.{name}" if prefix else name
                how = plan.parameters.get(first.get(full, full), Parameter(whole))
                if table is owner._buffers:  # nothing is trained
                    how = Parameter(how.placements)
                if tensor not in of_tensor:
                    stored = list(how.placements)
                    if how.share_of >= 0:
                        for axis in how.reduce:
                            stored[axis] = Shard(how.share_of)
                    one = distribute_tensor(tensor.detach(), mesh, stored, src_data_rank=None)
                    is_parameter = isinstance(tensor, nn.Parameter)
                    of_tensor[tensor] = nn.Parameter(one, tensor.requires_grad) if is_parameter else one
                table[name] = of_tensor[tensor]
                if how.share_of >= 0:
                    _gather_to_compute(owner, name, how.placements)
                    again.setdefault(owner, {})[name] = how.is_gathered_again
    for owner, names in again.items():
        if any(names.values()) and not _is_recomputed(plan, of_owner[owner]):  # that gathers again anyway
            _gather_again(owner, {name for name, is_again in names.items() if is_again})


def _is_recomputed(plan, name):
    return any(name == r or name.startswith(f"{r}.") for r in plan.recomputed)


def _gather_to_compute(owner, name, placements):
    """Makes reads of the attribute gather the shares; owner.parameters() and state_dict() have the shares.

    As SimpleFSDP does it (Zhang et al., SimpleFSDP: simpler fully sharded data parallel with torch.compile, 2024).
    """

    def gathered(self):
        whole = self._parameters[name].redistribute(placements=placements)
        if self.__dict__.get("_unity_whole") is not None:
            self._unity_whole[_storage(whole)] = (name, whole)
        return whole

    base = type(owner)
    owner.__class__ = type(base.__name__, (base,), {name: property(gathered), "__module__": base.__module__})


def _storage(tensor):
    return tensor._local_tensor.untyped_storage().data_ptr()


def _gather_again(owner, names):
    """Makes the backward pass gather these parameters of the module again, instead of keeping them for it."""
    inner = owner.forward

    def pack(saved):
        known = owner._unity_whole if isinstance(saved, DTensor) else {}
        name, whole = known.get(_storage(saved), (None, None)) if known else (None, None)
        if name not in names:
            return saved.detach()  # the tensor itself would refer to its graph, which refers to it
        local = saved._local_tensor
        view = (local.shape, local.stride(), local.storage_offset())
        return owner._parameters[name].detach(), whole.placements, view, saved.placements, saved.shape, saved.stride()

    def unpack(kept):
        if isinstance(kept, torch.Tensor):
            return kept
        share, placements, view, as_read, shape, stride = kept
        local = share.redistribute(placements=placements).to_local().as_strided(*view)
        return DTensor.from_local(local, share.device_mesh, as_read, run_check=False, shape=shape, stride=stride)

    @functools.wraps(inner)
    def forward(*args, **kwargs):
        owner._unity_whole = {}  # by storage: gathered weights, which live until the module is done
        try:
            with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
                return inner(*args, **kwargs)
        finally:
            owner._unity_whole = None

    owner.forward = forward


def _redistributed(tensor, placements):
    """Redistributes a tensor once for all its readers with this layout, so that their gradients return together, too.

    Anew when the tensor has changed in place, which its version tells; tensors of inference_mode have none.
    """
    if tensor.is_inference():
        return tensor.redistribute(placements=placements)
    version, known = getattr(tensor, "_unity_layouts", (None, None))
    if version != tensor._version:
        known = {}
        tensor._unity_layouts = (tensor._version, known)
    key = (tuple(placements), torch.is_grad_enabled())
    if key not in known:
        known[key] = tensor.redistribute(placements=placements)
    return known[key]


def _lay_out(module, layout):
    def before(_, args):
        if layout.input is None or not args or not isinstance(args[0], DTensor) or args[0].dim() != layout.ranks[0]:
            return None
        return (_redistributed(args[0], layout.input), *args[1:])

    def after(_, args, result):
        if not isinstance(result, DTensor) or result.dim() != layout.ranks[1]:
            return None
        return result.redistribute(placements=layout.output)

    module.register_forward_pre_hook(before)
    module.register_forward_hook(after)


def distribute_arguments(layouts, mesh, args, named):
    """The arguments as DTensors: tensors among args have the layouts in order, others those of their names."""
    tensors = [x for x in args if isinstance(x, torch.Tensor)]
    if len(tensors) + sum(name in layouts for name in named) != len(layouts):
        raise ValueError(f"{len(tensors)} tensors and the names {sorted(named)}; expected the plan's inputs: "
                         f"{', '.join(layouts)}")
    order = iter(layouts.values())
    return (tuple(_distributed(x, mesh, next(order)) if isinstance(x, torch.Tensor) else x for x in args),
            {name: _distributed(x, mesh, layouts[name]) if name in layouts else x for name, x in named.items()})


def distribute_inputs(layouts, mesh, args):
    return tuple(_distributed(x, mesh, placements) for x, placements in zip(args, layouts, strict=True))


def _distributed(x, mesh, placements):
    if not isinstance(x, torch.Tensor) or isinstance(x, DTensor):
        return x
    return distribute_tensor(x, mesh, placements, src_data_rank=None)


def _refuse_gradient(tensor, name):
    """A plan lacks parameters that its graph does not read. They stay whole, and get no gradients."""

    def refuse(_):
        raise RuntimeError(f"{name}: a gradient, but the plan has no such parameter; expected the plan of this module")

    if tensor.requires_grad:
        tensor.register_post_accumulate_grad_hook(refuse)


class _Bucket:
    def __init__(self, axes):
        self.axes = axes
        self.members = {}  # by tensor: placements
        self.arrived = set()  # since the last all-reduce
        self.arrived_now = set()  # in this backward pass
        self.is_reduced = False  # or about to be


class _Reductions:
    """All-reduces of gradients in the last backward pass of an iteration: those of a bucket together, as soon as all of
    them are complete, or when the pass ends."""

    def __init__(self, plan, module, mesh, root):
        self.mesh = mesh
        self.root = root
        self.passes = plan.microbatches
        self.ended = 0  # passes of this iteration
        self.task = None  # PyTorch's number of the backward pass
        self.groups = {}  # by axes; made by all ranks, in the same order
        self.pending = []
        buckets = {}
        for name, tensor in module.named_parameters():
            how = plan.parameters.get(name)
            if how is None:
                _refuse_gradient(tensor, name)
            elif how.reduce and how.share_of < 0 and tensor.requires_grad:
                bucket = buckets.setdefault((how.bucket, tuple(how.reduce)), _Bucket(tuple(how.reduce)))
                bucket.members[tensor] = how.placements
                tensor.register_post_accumulate_grad_hook(lambda t, bucket=bucket: self._arrived(t, bucket))
        self.buckets = [bucket for _, bucket in sorted(buckets.items(), key=lambda b: b[0])]
        for bucket in self.buckets:
            if bucket.axes not in self.groups:
                self.groups[bucket.axes] = self._group(bucket.axes)

    def _group(self, axes):
        names = tuple(self.mesh.mesh_dim_names[a] for a in axes)
        return self.root[names].get_group() if len(axes) == 1 else self.root[names]._flatten().get_group()

    def _arrived(self, tensor, bucket):
        task = torch._C._current_graph_task_id()
        if task != self.task:  # the first gradient of a pass; the pass before may have ended in an exception
            self.task = task
            self.pending = []
            for other in self.buckets:
                other.arrived_now = set()
                other.is_reduced = False
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)
        bucket.arrived.add(tensor)
        bucket.arrived_now.add(tensor)
        if self.ended + 1 == self.passes and len(bucket.arrived_now) == len(bucket.members):
            self._reduce(bucket)

    def _reduce(self, bucket):
        members = {t: to for t, to in bucket.members.items() if t in bucket.arrived and t.grad is not None}
        bucket.arrived = set()
        bucket.is_reduced = True
        if not members:
            return
        grads = [self._partials(t, placements, bucket.axes) for t, placements in members.items()]
        flat = torch.cat([g.reshape(-1) for g in grads]) if len(grads) > 1 else grads[0].contiguous()
        work = dist.all_reduce(flat, group=self.groups[bucket.axes], async_op=True)
        self.pending.append((work, flat, grads, members))

    def _partials(self, tensor, placements, axes):
        """This rank's partial sum: the gradient in the parameter's layout, except along the axes that are added up."""
        grad = tensor.grad
        wanted = [p if axis in axes and p.is_partial() else to
                  for axis, (p, to) in enumerate(zip(grad.placements, placements))]
        partial = grad.redistribute(placements=wanted).to_local()
        for axis in axes:  # what is whole already counts once
            if not wanted[axis].is_partial() and self.mesh.get_local_rank(axis) != 0:
                partial = torch.zeros_like(partial)
        return partial

    def _finish(self):
        self.ended = (self.ended + 1) % self.passes
        if self.ended:
            return
        for bucket in self.buckets:
            if not bucket.is_reduced:
                self._reduce(bucket)
        pending, self.pending = self.pending, []
        for work, flat, grads, members in pending:
            work.wait()
            parts = flat.split([g.numel() for g in grads]) if len(grads) > 1 else [flat]
            for (tensor, placements), part, own in zip(members.items(), parts, grads):
                tensor.grad = DTensor.from_local(
                    part.view(own.shape), self.mesh, placements, run_check=False,
                    shape=tensor.shape, stride=tensor.stride())
