#!/usr/bin/env python3
"""Exports small models with sizes computed from dynamic ones, optimizes them, and compares at three bindings each.

    open_sizes.py FOLDER [NAME...] [--optimize PROGRAM] [--exporter script|dynamo]

The models have halves of a sequence, a class token, flattened samples and positions, strides, images of dynamic height
and width, patches and windows, pooling and upsampling, and positions after pooling. PyTorch writes
FOLDER/NAME_EXPORTER.onnx with dynamic batch, length, height and width; `optimize` runs on each; original and result run
in onnxruntime. Prints a line per file: whether the result is optimized or the original, and the largest difference
relative to the largest output.

Needs `pip install torch onnx onnxscript onnxruntime numpy`. Exit codes: 0; 1 if a result differs, does not run, or
does not support all sizes; 2 for bad usage.
"""

import argparse
import json
import os
import subprocess
import sys
import warnings

try:
    import numpy
    import onnxruntime
    warnings.filterwarnings("ignore")
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError as e:
    sys.exit(f"{e.name}: cannot be imported by {sys.executable}; expected what "
             "`pip install torch onnx onnxscript onnxruntime numpy` installs")

WIDTH, HEADS = 16, 2


def linear():
    return nn.Linear(WIDTH, WIDTH)


def attention(queries, keys, values):
    split = [t.reshape(t.shape[0], t.shape[1], HEADS, WIDTH // HEADS).transpose(1, 2) for t in (queries, keys, values)]
    scores = split[0] @ split[1].transpose(2, 3) / (WIDTH / HEADS) ** .5
    mixed = torch.softmax(scores, -1) @ split[2]
    return mixed.transpose(1, 2).reshape(queries.shape)


class Halves(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = linear(), linear()

    def forward(self, x):
        half = x.shape[1] // 2
        return torch.relu(torch.cat([self.second(x[:, half:]), self.first(x[:, :half])], 1))


class ClassToken(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.q, self.k, self.v = linear(), linear(), linear()

    def forward(self, x):
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        return attention(self.q(x), self.k(x), self.v(x))


class Rows(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = linear(), linear()

    def forward(self, x):
        rows = x.reshape(x.shape[0] * x.shape[1], x.shape[2])
        return self.second(functional.gelu(self.first(rows))).reshape(x.shape) + x


class Strides(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(WIDTH, WIDTH, 3, stride=2, padding=1)
        self.second = nn.Conv1d(WIDTH, WIDTH, 3, stride=2, padding=1)
        self.q, self.k = linear(), linear()

    def forward(self, x):
        y = torch.relu(self.second(torch.relu(self.first(x.transpose(1, 2))))).transpose(1, 2)
        return attention(self.q(y), self.k(y), y)


class Image(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, WIDTH, 3, stride=2, padding=1)
        self.norm, self.pool = nn.BatchNorm2d(WIDTH), nn.MaxPool2d(3, 2, 1)
        self.mix, self.last = linear(), nn.Conv2d(WIDTH, 8, 1)

    def forward(self, x):
        y = self.pool(torch.relu(self.norm(self.first(x))))
        points = y.flatten(2).transpose(1, 2)
        return self.last((self.mix(points) + points).transpose(1, 2).reshape(y.shape))


class Patches(nn.Module):
    def __init__(self):
        super().__init__()
        self.cut, self.mix = nn.Conv2d(3, WIDTH, 8, stride=8), linear()

    def forward(self, x):
        y = self.cut(x)
        b, c, h, w = y.shape
        windows = y.permute(0, 2, 3, 1).reshape(b, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, c)
        mixed = self.mix(windows).reshape(b, h // 2, w // 2, 2, 2, c)
        return mixed.permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)


class Grows(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.last = nn.Conv2d(16, 4, 1)

    def forward(self, x):
        fine = torch.relu(self.first(x))
        coarse = torch.relu(self.second(functional.avg_pool2d(fine, 2)))
        return self.last(torch.cat([fine, functional.interpolate(coarse, size=fine.shape[2:], mode="nearest")], 1))


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.q, self.k = nn.Embedding(256, WIDTH), linear(), linear()

    def forward(self, x):
        y = functional.avg_pool1d(x.transpose(1, 2), 2).transpose(1, 2)
        count = y.shape[1]
        y = y + self.table(torch.arange(count, device=x.device))[None]
        mask = torch.full((count, count), -1e4).triu(1)
        return torch.softmax(self.q(y) @ self.k(y).transpose(1, 2) + mask, -1) @ y


SEQUENCE = {0: "batch", 1: "length"}
IMAGE = {0: "batch", 2: "height", 3: "width"}
LENGTHS = [(1, 6, WIDTH), (2, 9, WIDTH), (3, 40, WIDTH)]
IMAGES = [(1, 3, 32, 64), (2, 3, 57, 90), (3, 3, 100, 41)]
MODELS = {"halves": (Halves, SEQUENCE, LENGTHS), "class_token": (ClassToken, SEQUENCE, [(1, 1, WIDTH)] + LENGTHS[1:]),
          "rows": (Rows, SEQUENCE, [(1, 1, WIDTH)] + LENGTHS[1:]), "strides": (Strides, SEQUENCE, LENGTHS),
          "image": (Image, IMAGE, IMAGES),
          "patches": (Patches, IMAGE, [(1, 3, 32, 64), (2, 3, 80, 48), (3, 3, 16, 112)]),
          "grows": (Grows, IMAGE, IMAGES), "positions": (Positions, SEQUENCE, LENGTHS)}


def export(path, name, exporter):
    kind, axes, _ = MODELS[name]
    torch.manual_seed(0)
    x = torch.randn((2, 3, 64, 96) if axes is IMAGE else (2, 24, WIDTH))
    common = {"input_names": ["x"], "output_names": ["y"]}
    if exporter == "script":
        torch.onnx.export(kind().eval(), (x,), path, dynamo=False, dynamic_axes={"x": axes}, opset_version=17, **common)
    else:
        shapes = {"x": {a: torch.export.Dim.DYNAMIC for a in axes}}
        torch.onnx.export(kind().eval(), (x,), path, dynamo=True, dynamic_shapes=shapes, opset_version=18,
                          external_data=False, verbose=False, **common)


def run(path, x):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def judged(args, path, bindings):
    """Returns (whether it passed, what happened)."""
    out = os.path.splitext(path)[0]
    ran = subprocess.run([args.optimize, path, "--target", "none", "--budget", "5s", "--out", out, "--json",
                          out + ".json"], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        return False, f"optimize: {ran.stderr.strip()[-200:]}"
    with open(out + ".json", encoding="utf-8") as file:
        held = json.load(file).get("held_size")
    worst = 0.0
    for dims in bindings:
        x = numpy.random.default_rng(1).standard_normal(dims).astype("float32")
        before = run(path, x)
        try:
            after = run(os.path.join(out, "optimized.onnx"), x)
        except Exception as e:  # the engine raises many kinds of exceptions
            return False, f"does not run at {dims}: {str(e)[:120]}"
        if before.shape != after.shape:
            return False, f"other sizes at {dims}: {after.shape} instead of {before.shape}"
        worst = max(worst, float(abs(before - after).max() / max(abs(before).max(), 1e-30)))
    if held:
        return False, f"the original, as {held}"
    return worst < 1e-5, f"written for all sizes, largest difference {worst:.1e}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"of {', '.join(MODELS)}; default: all")
    parser.add_argument("--optimize", metavar="PROGRAM", default="optimize",
                        help="path of the program; default: in PATH")
    parser.add_argument("--exporter", choices=["script", "dynamo"], help="default: both")
    args = parser.parse_intermixed_args()
    for name in args.names:
        if name not in MODELS:
            parser.error(f"no model {name}; expected one of {', '.join(MODELS)}")
    os.makedirs(args.folder, exist_ok=True)
    onnxruntime.set_default_logger_severity(4)
    well = True
    for name in args.names or MODELS:
        for exporter in [args.exporter] if args.exporter else ["script", "dynamo"]:
            path = os.path.join(args.folder, f"{name}_{exporter}.onnx")
            export(path, name, exporter)
            good, what = judged(args, path, MODELS[name][2])
            print(f"{name}_{exporter}: {what}", flush=True)
            well = well and good
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
