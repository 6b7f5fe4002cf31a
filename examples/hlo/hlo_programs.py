"""The programs whose HLO make_hlo_dumps.py writes: small, and each with something that the others lack."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

DEVICES = 4  # that those need which communicate


def drawn(seed, *shape, dtype=np.float32):
    return (np.random.default_rng(seed).standard_normal(shape) * 0.3).astype(dtype)


def mesh():
    return Mesh(np.array(jax.devices()[:DEVICES]), ("data",))


def sgd(loss, rate=0.1):
    def step(weights, *batch):
        value, gradient = jax.value_and_grad(loss)(weights, *batch)
        return value, jax.tree.map(lambda w, g: w - rate * g, weights, gradient)
    return step


def mlp_loss(weights, x, y):
    for w, b in weights[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = weights[-1]
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(x @ w + b) * y, axis=-1))


def mlp_weights():
    return [(drawn(i, a, b), drawn(9 + i, b)) for i, (a, b) in enumerate([(8, 16), (16, 16), (16, 4)])]


def mlp():
    return jax.jit(sgd(mlp_loss)), (mlp_weights(), drawn(1, 8, 8), np.eye(4, dtype=np.float32)[np.arange(8) % 4])


def donated():
    step = jax.jit(sgd(mlp_loss), donate_argnums=0)
    return step, (mlp_weights(), drawn(1, 8, 8), np.eye(4, dtype=np.float32)[np.arange(8) % 4])


def cnn():
    def loss(weights, x, y):
        k1, k2, scale, w = weights
        x = lax.conv_general_dilated(x, k1, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        mean, variance = jnp.mean(x, (0, 1, 2)), jnp.var(x, (0, 1, 2))
        x = jax.nn.relu((x - mean) * lax.rsqrt(variance + 1e-5) * scale)
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = lax.conv_general_dilated(x, k2, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jnp.mean(jnp.tanh(x), (1, 2))
        return jnp.mean((x @ w - y) ** 2)
    weights = (drawn(1, 3, 3, 3, 8), drawn(2, 3, 3, 8, 8), drawn(3, 8), drawn(4, 8, 4))
    return jax.jit(sgd(loss)), (weights, drawn(5, 2, 8, 8, 3), drawn(6, 2, 4))


def convolutions():
    def f(x, k, grouped):
        a = lax.conv_general_dilated(x, k, (1, 2), ((1, 1), (2, 0)), rhs_dilation=(2, 1))
        b = lax.conv_general_dilated(x, grouped, (1, 1), "SAME", feature_group_count=2)
        c = lax.conv_transpose(x, k, (2, 2), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"))
        d = lax.conv_general_dilated(x, k, (1, 1), "VALID", batch_group_count=2)
        return sum(jnp.sum(jnp.sin(i)) for i in (a, b, c, d))
    x, k, grouped = drawn(1, 4, 4, 6, 6), drawn(2, 4, 4, 3, 3), drawn(3, 4, 2, 3, 3)
    return jax.jit(jax.grad(f, argnums=(0, 1, 2))), (x, k, grouped)


def layer_norm(x, scale):
    mean = jnp.mean(x, -1, keepdims=True)
    return (x - mean) * lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-5) * scale


def attend(q, k, v, mask):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(jnp.where(mask, scores, -1e9)), v)


def gpt():
    heads, width, length, words = 2, 8, 6, 16

    def block(x, w):
        b, s, _ = x.shape
        qkv = (layer_norm(x, w["n1"]) @ w["qkv"]).reshape(b, s, 3, heads, -1).transpose(2, 0, 3, 1, 4)
        mask = jnp.tril(jnp.ones((s, s), bool))
        x = x + attend(*qkv, mask).transpose(0, 2, 1, 3).reshape(b, s, -1) @ w["out"]
        return x + jax.nn.gelu(layer_norm(x, w["n2"]) @ w["up"]) @ w["down"]

    def loss(weights, tokens):
        x = weights["embed"][tokens[:, :-1]] + weights["place"]
        for w in weights["blocks"]:
            x = block(x, w)
        logits = jax.nn.log_softmax(x @ weights["embed"].T)
        return -jnp.mean(jnp.take_along_axis(logits, tokens[:, 1:, None], -1))

    blocks = [{"n1": drawn(1, width), "n2": drawn(2, width), "qkv": drawn(3 + i, width, 3 * width),
               "out": drawn(5 + i, width, width), "up": drawn(7 + i, width, 2 * width),
               "down": drawn(9 + i, 2 * width, width)} for i in range(1)]
    weights = {"embed": drawn(11, words, width), "place": drawn(12, length, width), "blocks": blocks}
    return jax.jit(sgd(loss)), (weights, np.arange(2 * (length + 1), dtype=np.int32).reshape(2, -1) * 5 % words)


def attention():
    def f(q, k, v, lengths):
        return attend(q, k, v, (jnp.arange(k.shape[2]) < lengths[:, None])[:, None, None, :])
    return jax.jit(f), (drawn(1, 2, 2, 5, 4), drawn(2, 2, 2, 7, 4), drawn(3, 2, 2, 7, 4), np.array([3, 7], np.int32))


def scan():
    def loss(w, xs):
        def cell(h, x):
            h = jnp.tanh(x @ w["x"] + h @ w["h"])
            return h, jnp.sum(h)
        h, sums = lax.scan(cell, jnp.zeros((2, 4)), xs)
        return jnp.sum(h ** 2) + jnp.mean(sums)
    return jax.jit(sgd(loss)), ({"x": drawn(1, 3, 4), "h": drawn(2, 4, 4)}, drawn(3, 5, 2, 3))


def while_loop():
    def root(a):
        def better(state):
            x, _ = state
            return 0.5 * (x + a / x), jnp.abs(x * x - a)
        return lax.while_loop(lambda s: jnp.any(s[1] > 1e-4), better, (a, jnp.ones_like(a)))[0]
    return jax.jit(root), (np.abs(drawn(1, 6)) + 1,)


def vmapped_while():
    def f(n, x):
        return lax.fori_loop(0, n, lambda i, y: y * 0.5 + jnp.sin(x) * i, x)
    return jax.jit(jax.vmap(f)), (np.array([1, 4, 2], np.int32), drawn(1, 3, 4))


def conditional():
    def f(which, flag, x):
        y = lax.switch(which, [jnp.sin, lambda v: v * v, lambda v: jnp.flip(v, 0)], x)
        return lax.cond(flag, lambda v: (v + 1, jnp.sum(v)), lambda v: (v @ v, jnp.max(v)), y)
    return jax.jit(f), (np.int32(1), np.array(True), drawn(1, 4, 4))


def sorting():
    def f(x, at):
        values, places = lax.top_k(x, 3)
        return (values, places, jnp.sort(x, 0), jnp.argsort(x, 1), jnp.argmax(x, 1), jnp.cumsum(x, 1), jnp.median(x),
                x.at[at].add(1.0), x[at, ::2], jnp.unique(at, size=3))
    return jax.jit(f), (drawn(1, 5, 8), np.array([0, 3, 1], np.int32))


def types():
    def f(x, n, z):
        half = x.astype(jnp.bfloat16)
        bits = lax.bitcast_convert_type(x, jnp.int32)
        window = lax.dynamic_slice(x, (n, 1), (2, 3))
        placed = lax.dynamic_update_slice(x, window * 2, (n, n))
        padded = jnp.pad(x, ((1, 2), (0, 1)), constant_values=3.0)
        return (half @ half.T, bits ^ (bits >> 3), placed, lax.pad(padded, 0.0, ((0, -1, 1), (2, 0, 0))),
                jnp.clip(x, -0.1, 0.1), jnp.real(z * jnp.conj(z)), jnp.fft.irfft(jnp.fft.rfft(x)), jnp.round(x * 10),
                jnp.concatenate([x, x[::-1]], 1), jnp.isfinite(x), n.astype(jnp.uint8), (x > 0) & (x < 0.2),
                jnp.array([[1, -2], [3, 4]]) * n, x.astype(jnp.float8_e4m3fn).astype(jnp.float32))
    return jax.jit(f), (drawn(1, 4, 6), np.int32(1), (drawn(2, 3) + 1j * drawn(3, 3)).astype(np.complex64))


def random():
    def f(bits, x):
        key = jax.random.wrap_key_data(bits, impl="threefry2x32")
        kept = jax.random.bernoulli(key, 0.8, x.shape)
        other = jax.random.wrap_key_data(jnp.concatenate([bits, bits]), impl="rbg")
        return jnp.where(kept, x / 0.8, 0) + jax.random.normal(other, x.shape)
    return jax.jit(f), (np.array([1, 2], np.uint32), drawn(1, 4, 4))


def experts():
    def loss(weights, x):
        gates = jax.nn.softmax(x @ weights["gate"])
        best, which = lax.top_k(gates, 2)
        chosen = jnp.einsum("tk,tke->te", best, jax.nn.one_hot(which, gates.shape[-1]))
        inner = jax.nn.silu(jnp.einsum("td,edf->tef", x, weights["up"]))
        return jnp.mean(jnp.einsum("te,tef,efd->td", chosen, inner, weights["down"]) ** 2)
    weights = {"gate": drawn(1, 6, 4), "up": drawn(2, 4, 6, 8), "down": drawn(3, 4, 8, 6)}
    return jax.jit(sgd(loss)), (weights, drawn(4, 5, 6))


def solving():
    def f(a, b):
        m = a @ a.T + jnp.eye(a.shape[0])
        return jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(m), b, lower=True)
    return jax.jit(f), (drawn(1, 4, 4), drawn(2, 4, 2))


def pmap():
    def step(weights, x, y):
        value, gradient = jax.value_and_grad(mlp_loss)(weights, x, y)
        gradient = lax.pmean(gradient, "data")
        return lax.pmean(value, "data"), jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradient)
    y = np.eye(4, dtype=np.float32)[np.arange(8).reshape(4, 2) % 4]
    return jax.pmap(step, "data", in_axes=(None, 0, 0)), (mlp_weights(), drawn(1, 4, 2, 8), y)


def data_parallel():
    @functools.partial(jax.shard_map, mesh=mesh(), in_specs=(P(), P("data"), P("data")), out_specs=P(), check_vma=False)
    def step(weights, x, y):
        value, gradient = jax.value_and_grad(mlp_loss)(weights, x, y)
        gradient = jax.tree.map(lambda g: lax.psum(g, "data") / DEVICES, gradient)
        return lax.pmean(value, "data"), jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradient)
    return jax.jit(step), (mlp_weights(), drawn(1, 8, 8), np.eye(4, dtype=np.float32)[np.arange(8) % 4])


def collectives():
    @functools.partial(jax.shard_map, mesh=mesh(), in_specs=P("data"), out_specs=P("data"), check_vma=False)
    def f(x):
        a = lax.all_gather(x, "data", tiled=True)
        b = lax.psum_scatter(a, "data", tiled=True)
        c = lax.all_to_all(b, "data", 1, 0, tiled=True)
        d = lax.ppermute(x, "data", [(i, (i + 1) % DEVICES) for i in range(DEVICES)])
        e = lax.pmax(x, "data") + lax.axis_index("data")
        return jnp.sin(c).reshape(x.shape) + d * e
    return jax.jit(f), (drawn(1, 8, 4),)


def sharded():
    m = mesh()
    weights = NamedSharding(m, P(None, "data")), NamedSharding(m, P("data", None))

    def loss(w, x):
        h = lax.with_sharding_constraint(jax.nn.relu(x @ w[0]), NamedSharding(m, P(None, "data")))
        return jnp.mean((h @ w[1]) ** 2)
    step = jax.jit(sgd(loss), in_shardings=(weights, NamedSharding(m, P())), out_shardings=(None, weights))
    return step, ((drawn(1, 8, 16), drawn(2, 16, 8)), drawn(3, 4, 8))


PROGRAMS = {f.__name__: f for f in (
    mlp, donated, cnn, convolutions, gpt, attention, scan, while_loop, vmapped_while, conditional, sorting, types,
    random, experts, solving, pmap, data_parallel, collectives, sharded)}
