"""A plan.

Written by export_plan. The devices of the mesh are
n0/gpu0 n0/gpu1 n0/gpu2 n0/gpu3 n1/gpu0 n1/gpu1
n1/gpu2 n1/gpu3
"""

import jax
import numpy
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

SIZES = (2, 4,)
AXES = ("axis0", "axis1",)
INPUTS = {
    "x": P("axis0"),
}
PARAMETERS = {
    "up.weight": P("axis1"),
    "up.bias": P("axis1"),
    "down.weight": P(None, "axis1"),
    "down.bias": P(),
}
RESULTS = {  # of modules
    "up": P("axis0", "axis1"),
    "down": P("axis0"),
}


def mesh(devices=None):
    """Of as many devices as the plan has, the first ones unless told."""
    count = int(numpy.prod(SIZES))
    chosen = list(jax.devices() if devices is None else devices)[:count]
    if len(chosen) < count:
        raise ValueError(f"{len(chosen)} devices; expected {count}, those of the plan")
    return Mesh(numpy.array(chosen).reshape(SIZES), AXES)


def shard(values, on, specs):
    """A dict of arrays, laid onto the mesh: of inputs by INPUTS, of parameters by PARAMETERS."""
    return {name: jax.device_put(x, NamedSharding(on, specs[name])) for name, x in values.items()}


def constrain(name, value, on):
    """The result of a module, laid out as the plan has it."""
    return jax.lax.with_sharding_constraint(value, NamedSharding(on, RESULTS[name]))
