"""A plan on JAX: an MLP on 8 devices of the host, laid out by the plan, beside one device.

    UNITY_PROGRAMS=build/release/bin python test/python/jax_plan_test.py

Says "skipped" and exits with 77 where jax is absent.
"""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
try:
    import jax
    import jax.numpy as jnp
    import numpy
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

PLAN = pathlib.Path(__file__).parents[2] / "examples" / "plans" / "mlp_p100_2x4.json"
STEPS = 20


def written(folder):
    out = pathlib.Path(folder) / "plan.py"
    program = pathlib.Path(os.environ["UNITY_PROGRAMS"]) / "export_plan"
    subprocess.run([program, PLAN, "--to", "jax", "--out", out], check=True)
    spec = importlib.util.spec_from_file_location("plan", out)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def losses(constrain, place, parameters, batches):
    def loss(w, x):
        h = constrain("up", jax.nn.relu(x @ w["up.weight"].T + w["up.bias"]))
        y = constrain("down", h @ w["down.weight"].T + w["down.bias"])
        return (y * y).mean()

    step = jax.jit(jax.value_and_grad(loss))
    found = []
    for x in batches:
        value, gradients = step(parameters, place(x))
        found.append(float(value))
        parameters = {name: w - 0.1 * gradients[name] for name, w in parameters.items()}
    text = step.lower(parameters, place(batches[0])).compile().as_text()
    return found, {kind: text.count(f" {kind}(") for kind in ("all-reduce", "all-gather", "all-to-all")}, parameters


def main():
    random = numpy.random.default_rng(7)
    sizes = {"up.weight": (64, 32), "up.bias": (64,), "down.weight": (16, 64), "down.bias": (16,)}
    values = {name: jnp.asarray(random.normal(size=s) / 8, jnp.float32) for name, s in sizes.items()}
    batches = [jnp.asarray(random.normal(size=(16, 32)), jnp.float32) for _ in range(STEPS)]
    alone, _, _ = losses(lambda _, x: x, lambda x: x, values, batches)
    with tempfile.TemporaryDirectory() as folder:
        plan = written(folder)
        mesh = plan.mesh()
        laid, kinds, after = losses(lambda name, x: plan.constrain(name, x, mesh),
                                    lambda x: plan.shard({"x": x}, mesh, plan.INPUTS)["x"],
                                    plan.shard(values, mesh, plan.PARAMETERS), batches)
    kept = all(w.sharding.spec == plan.PARAMETERS[name] for name, w in after.items())
    off = max(abs(a - b) for a, b in zip(alone, laid))
    print(f"8 devices beside one: losses differ by {off:.1e} at most in {STEPS} steps; collectives {kinds}; "
          f"parameters stay as the plan has them: {kept}")
    return 0 if off < 1e-5 and kept else 1


if __name__ == "__main__":
    sys.exit(main())
