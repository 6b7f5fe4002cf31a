"""Measures a forward pass of BERT-large (batch 4, 512 tokens, float32) in PyTorch's eager mode: median seconds of 30.

The layers are those of zoo:bert_large: scaled attention with softmax written out, biases, exact gelu, residual sums and
layer norms. Matrix products are in full float32 (no TF32), as unity's are.
"""
import statistics
import sys

try:
    import torch
    import torch.nn.functional as f
except ImportError:
    sys.exit("no PyTorch here")
if not torch.cuda.is_available():
    sys.exit("PyTorch sees no GPU")

torch.backends.cuda.matmul.allow_tf32 = False
BATCH, TOKENS, LAYERS, HIDDEN, HEADS = 4, 512, 24, 1024, 16


def parameters(*sizes):
    return torch.randn(*sizes, device="cuda") * 0.02


def layer_parameters():
    linear = [(parameters(o, i), parameters(o)) for i, o in
              [(HIDDEN, HIDDEN)] * 4 + [(HIDDEN, 4 * HIDDEN), (4 * HIDDEN, HIDDEN)]]
    norms = [(parameters(HIDDEN) + 1, parameters(HIDDEN)) for _ in range(2)]
    return linear, norms


def layer(x, linear, norms):
    def heads(w, b):
        return f.linear(x, w, b).view(BATCH, TOKENS, HEADS, HIDDEN // HEADS).transpose(1, 2)

    q, k, v = (heads(*linear[i]) for i in range(3))
    scores = torch.softmax(q @ k.transpose(-1, -2) / (HIDDEN // HEADS) ** 0.5, dim=-1)
    mixed = (scores @ v).transpose(1, 2).reshape(BATCH, TOKENS, HIDDEN)
    x = f.layer_norm(x + f.linear(mixed, *linear[3]), (HIDDEN,), *norms[0], eps=1e-12)
    inner = f.gelu(f.linear(x, *linear[4]))
    return f.layer_norm(x + f.linear(inner, *linear[5]), (HIDDEN,), *norms[1], eps=1e-12)


with torch.inference_mode():
    layers = [layer_parameters() for _ in range(LAYERS)]
    start = torch.randn(BATCH, TOKENS, HIDDEN, device="cuda")
    seconds = []
    for i in range(35):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        x = start
        for linear, norms in layers:
            x = layer(x, linear, norms)
        end.record()
        end.synchronize()
        if i >= 5:
            seconds.append(begin.elapsed_time(end) / 1000)
print(f"{statistics.median(seconds):.6f}")
