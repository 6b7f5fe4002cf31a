"""A plan.

Written by export_plan. Rank i runs what the plan has on the i-th of
n0/gpu0 n0/gpu1 n0/gpu2 n0/gpu3 n1/gpu0 n1/gpu1
n1/gpu2 n1/gpu3
"""

from torch.distributed.tensor import Partial, Replicate, Shard

import unity_plan
from unity_plan import Layout, Parameter

PLAN = unity_plan.Plan(
    mesh=(2, 4,),
    inputs={
        "x": [Shard(0), Replicate()],
    },
    parameters={
        "up.weight": Parameter([Replicate(), Shard(0)], reduce=[0], bucket=0, shape=[64, 32]),
        "up.bias": Parameter([Replicate(), Shard(0)], reduce=[0], bucket=1, shape=[64]),
        "down.weight": Parameter([Replicate(), Shard(1)], reduce=[0], bucket=2, shape=[16, 64]),
        "down.bias": Parameter([Replicate(), Replicate()], reduce=[0], bucket=3, shape=[16]),
    },
    modules={
        "up": Layout([Shard(0), Replicate()], [Shard(0), Shard(1)], ranks=(2, 2)),
        "down": Layout([Shard(0), Shard(1)], [Shard(0), Replicate()], ranks=(2, 2)),
    },
    forward={"all_reduce": 1, "all_gather": 0, "reduce_scatter": 0, "all_to_all": 0},
    backward={"all_reduce": 4, "all_gather": 0, "reduce_scatter": 0, "all_to_all": 0},
)


def parallelize(module, device_type="cuda"):
    """Lays the module out on the ranks of torch.distributed, in place."""
    return unity_plan.apply(PLAN, module, device_type)
