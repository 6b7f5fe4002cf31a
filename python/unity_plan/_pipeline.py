"""Runs a plan with stages: the stages of this rank, and a schedule of torch.distributed.pipelining for them."""

import functools
import math
import operator

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor

from . import _apply
from ._onnx import first_names


class Staged:
    """A rank's part of a module whose plan has stages.

    parts: its stages, by number; parameters keep their names in the module.
    schedule: of torch.distributed.pipelining, which runs them.
    """

    def __init__(self, parts, schedule, stages, microbatches):
        self.parts = parts
        self.schedule = schedule
        self.has_first = 0 in parts
        self.has_last = stages - 1 in parts
        self.microbatches = microbatches

    def named_parameters(self):
        for part in self.parts.values():
            yield from part.named_parameters()

    def parameters(self):
        for _, tensor in self.named_parameters():
            yield tensor

    def step(self, *args, target=None):
        """One iteration on a whole batch, up to the gradients.

        Every rank may pass the batch; only those of the first stage read args, and only those of the last read target.
        Returns the mean of the losses of micro-batches on ranks of the last stage (a DTensor, if stages have several
        devices), and None on others. Gradients are those of that mean.
        """
        given = args if self.has_first else ()
        if not self.has_last:
            self.schedule.step(*given)
            return None
        losses = []
        self.schedule.step(*given, target=target, losses=losses)
        return functools.reduce(operator.add, (loss.detach() for loss in losses)) / self.microbatches


def pipeline(plan, module, example, loss, device_type="cuda"):
    """The stages of this rank, distributed by the plan, and their schedule.

    example: arguments of one micro-batch, for torch.export, which traces the module's code once.
    loss(result, target): the mean of the losses of a micro-batch's samples.
    Parameters have to be the same on every rank. Parts share undivided parameters with the module, which must not be
    used any more.
    """
    from torch.distributed import pipelining

    if not plan.pipeline:
        raise ValueError("the plan has one stage; expected unity_plan.apply")
    for name, first in first_names(module).items():
        if name != first:
            raise ValueError(f"{name}: the same parameter as {first}; expected parameters of their own in a pipeline")
    groups = plan.pipeline.groups
    _apply.check_ranks(groups * math.prod(plan.mesh))
    _apply.check_names(plan, module)
    names = _apply.axis_names(plan)
    root = init_device_mesh(device_type, (groups, *plan.mesh), mesh_dim_names=("stage", *names))
    mesh = root[names] if math.prod(plan.mesh) > 1 else None
    bodies, takes = _split(plan, module, example)
    group = root["stage"].get_group()
    device = torch.device(device_type, torch.cuda.current_device() if device_type == "cuda" else None)
    parts = {}
    stages = []
    for number in range(root.get_local_rank("stage"), len(bodies), groups):
        body = bodies[number]
        if mesh is not None:
            _apply.lay_out(plan, body, mesh, root)
        _apply.recompute(plan, body)
        part = _Part(plan, body, mesh, number, takes)
        parts[number] = body
        stages.append(pipelining.PipelineStage(part, number, len(bodies), device, group=group))
    kind = getattr(pipelining, plan.pipeline.schedule)
    is_single = not issubclass(kind, pipelining.ScheduleInterleaved1F1B)
    last = stages[-1].submod
    schedule = kind(stages[0] if is_single else stages, plan.microbatches,
                    loss_fn=lambda result, target: last.loss(loss, result, target))
    return Staged(parts, schedule, len(bodies), plan.microbatches)


def _split(plan, module, example):
    """The stages as modules, and for each which results of the one before it (or arguments) it takes, in order."""
    from torch.distributed import pipelining

    spec = {}
    for cut in plan.pipeline.cuts:
        if cut.before:
            spec[cut.before] = pipelining.SplitPoint.BEGINNING
        else:
            spec[cut.after] = pipelining.SplitPoint.END
    for name in spec:
        module.get_submodule(name)
    try:
        pipe = pipelining.pipeline(module, tuple(example), split_spec=spec)
    finally:
        for name in spec:
            module.get_submodule(name).__dict__.pop("forward", None)
    if pipe.num_stages != len(plan.pipeline.cuts) + 1:
        raise ValueError(f"{pipe.num_stages} stages in the module; expected {len(plan.pipeline.cuts) + 1}: "
                         "a module at which stages begin or end is called more than once")
    return [pipe.get_stage_module(i) for i in range(pipe.num_stages)], _takes(pipe)


def _takes(pipe):
    nodes = list(pipe.split_gm.graph.nodes)
    arguments = [n for n in nodes if n.op == "placeholder"]
    calls = [n for n in nodes if n.op == "call_module"]
    takes = []
    for number, call in enumerate(calls):
        places = []
        for node in call.args:
            if number == 0:
                places.append(arguments.index(node))
            elif node is calls[number - 1]:
                places.append(0)
            elif node.op == "call_function" and node.args[0] is calls[number - 1]:
                places.append(node.args[1])
            else:
                raise ValueError(f"stage {number} reads {node.name}; expected values of the stage before it alone")
        takes.append(places)
    return takes


class _Part(nn.Module):
    """A stage whose arguments and results are tensors as they are sent: each rank's own part of a value."""

    def __init__(self, plan, body, mesh, number, takes):
        super().__init__()
        self.body = body
        self.mesh = mesh
        cuts = plan.pipeline.cuts
        self.takes = takes[0] if number == 0 else None
        self.gives = takes[number + 1] if number < len(cuts) else None
        self.inputs = list(plan.inputs.values()) if number == 0 else None
        self.before = cuts[number - 1].placements if number else None
        self.after = cuts[number].placements if number < len(cuts) else None
        self.layouts = None  # of results

    def forward(self, *args):
        if self.takes is not None:
            args = tuple(args[i] for i in self.takes)
        if self.mesh is not None:
            args = self._entering(args)
        results = self.body(*args)
        results = tuple(results) if isinstance(results, (tuple, list)) else (results,)
        if self.gives is not None:
            results = tuple(results[i] for i in self.gives)
        if self.mesh is not None:
            results = self._leaving(results)
        return results if len(results) > 1 else results[0]

    def _entering(self, args):
        if self.takes is not None:
            return _apply.distribute_inputs([self.inputs[i] for i in self.takes], self.mesh, args)
        return tuple(DTensor.from_local(x, self.mesh, self.before, run_check=False) for x in args)

    def _leaving(self, results):
        if self.after is not None:
            results = tuple(r.redistribute(placements=self.after) for r in results)
        self.layouts = [list(r.placements) for r in results]
        return tuple(r.to_local(grad_placements=r.placements) for r in results)

    def loss(self, loss, result, target):
        if self.mesh is None:
            return loss(result, target)
        results = result if isinstance(result, (tuple, list)) else (result,)
        whole = [DTensor.from_local(r, self.mesh, layout, run_check=False)
                 for r, layout in zip(results, self.layouts, strict=True)]
        return loss(whole[0] if len(whole) == 1 else tuple(whole), _apply.batch_like(whole[0], target))
