#!/usr/bin/python3
"""Writes ONNX models with random weights, in the form of PyTorch's exporter.

    make_models.py FOLDER     the models that the tests and the quick start read (see FOLDER_MODELS below)
    make_models.py resnet OUT.onnx [--blocks 3,4,6,3] [--width 64] [--image 224] [--classes 1000]
    make_models.py bert OUT.onnx [--layers 12] [--hidden 768] [--heads 12] [--feed-forward 3072]
                                 [--vocabulary 30522] [--positions 512] [--layer-norm decomposed|fused]

Common flags: --seed N, --opset N (13 to 17), --external (weights go to OUT.onnx.data), --batch N and --sequence N
(fix the dimensions that are otherwise dynamic under those names).
The defaults are ResNet-50 and BERT-base.
Needs Debian's python3-onnx and nothing else (run it with /usr/bin/python3).
"""

import argparse
import math
import os
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

SMALL_BERT = "--layers 2 --hidden 32 --heads 4 --feed-forward 64 --vocabulary 50 --positions 16"
FOLDER_MODELS = {
    "resnet50.onnx": "resnet --batch 1",
    "bert.onnx": "bert --hidden 256 --heads 4 --feed-forward 1024 --vocabulary 1000 --batch 1 --sequence 64",
    # Small models for tests, with dynamic dimensions.
    "resnet_small.onnx": "resnet --width 4 --image 32 --classes 10 --opset 13",
    "bert_small.onnx": "bert " + SMALL_BERT,
    "bert_fused.onnx": "bert --layer-norm fused --external " + SMALL_BERT,
}


class Graph:
    """Nodes and initializers in order of creation, with names that tell their position."""

    def __init__(self, seed):
        self.random = numpy.random.default_rng(seed)
        self.nodes = []
        self.initializers = []
        self.names = {}

    def unique(self, name):
        count = self.names.get(name, 0)
        self.names[name] = count + 1
        return name if count == 0 else f"{name}_{count}"

    def node(self, scope, kind, *inputs, outputs=1, **attributes):
        name = self.unique(f"/{scope}/{kind}")
        results = [f"{name}_output_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), results, name=name, **attributes))
        return results[0] if outputs == 1 else results

    def tensor(self, name, values):
        self.initializers.append(numpy_helper.from_array(values, name))
        return name

    def weight(self, name, *shape, scale=None):
        fan_in = math.prod(shape[1:]) if len(shape) == 4 else shape[0]
        scale = scale if scale is not None else 1.0 / math.sqrt(fan_in)
        return self.tensor(name, (self.random.standard_normal(shape) * scale).astype(numpy.float32))

    def near(self, name, value, *shape):
        noise = self.random.uniform(-0.05, 0.05, shape)
        return self.tensor(name, (value + noise).astype(numpy.float32))

    def constant(self, scope, value, dtype):
        return self.node(scope, "Constant", value=numpy_helper.from_array(numpy.array(value, dtype=dtype)))

    def integers(self, scope, *values):
        return self.constant(scope, list(values), numpy.int64)

    def real(self, scope, value):
        return self.constant(scope, value, numpy.float32)

    def rename_last(self, name):
        self.nodes[-1].output[0] = name

    def save(self, args, title, inputs, outputs):
        graph = helper.make_graph(self.nodes, title, inputs, outputs, self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", args.opset)],
                                  producer_name="make_models")
        model.ir_version = 8
        onnx.checker.check_model(model)
        unfinished = args.out + ".partial"
        if args.external:
            location = os.path.basename(args.out) + ".data"
            data = os.path.join(os.path.dirname(args.out), location)
            if os.path.exists(data):  # the package would append to it
                os.remove(data)
            onnx.save_model(model, unfinished, save_as_external_data=True, location=location, size_threshold=256)
        else:
            onnx.save_model(model, unfinished)
        os.replace(unfinished, args.out)


# ResNet: convolution, batch norm, relu; bottleneck blocks with a shortcut.


def conv_norm(g, scope, x, cin, cout, kernel, stride=1, relu=True):
    w = g.weight(f"{scope}.conv.weight", cout, cin, kernel, kernel)
    pad = (kernel - 1) // 2
    x = g.node(scope, "Conv", x, w, dilations=[1, 1], group=1, kernel_shape=[kernel, kernel],
               pads=[pad] * 4, strides=[stride, stride])
    norm = [g.near(f"{scope}.bn.{name}", value, cout)
            for name, value in (("weight", 1), ("bias", 0), ("running_mean", 0), ("running_var", 1))]
    x = g.node(scope, "BatchNormalization", x, *norm, epsilon=1e-5, momentum=0.9)
    return g.node(scope, "Relu", x) if relu else x


def bottleneck(g, scope, x, cin, width, stride):
    y = conv_norm(g, f"{scope}.1", x, cin, width, 1)
    y = conv_norm(g, f"{scope}.2", y, width, width, 3, stride)
    y = conv_norm(g, f"{scope}.3", y, width, 4 * width, 1, relu=False)
    if stride != 1 or cin != 4 * width:
        x = conv_norm(g, f"{scope}.downsample", x, cin, 4 * width, 1, stride, relu=False)
    return g.node(scope, "Relu", g.node(scope, "Add", y, x))


def resnet(args):
    g = Graph(args.seed)
    width = args.width
    x = conv_norm(g, "stem", "input", 3, width, 7, 2)
    x = g.node("maxpool", "MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2], ceil_mode=0)
    channels = width
    for stage, blocks in enumerate(int(b) for b in args.blocks.split(",")):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            x = bottleneck(g, f"layer{stage + 1}.{block}", x, channels, width << stage, stride)
            channels = 4 * (width << stage)
    x = g.node("avgpool", "GlobalAveragePool", x)
    x = g.node("flatten", "Flatten", x, axis=1)
    w = g.weight("fc.weight", args.classes, channels, scale=1 / math.sqrt(channels))
    b = g.near("fc.bias", 0, args.classes)
    g.node("fc", "Gemm", x, w, b, alpha=1.0, beta=1.0, transB=1)
    g.rename_last("output")
    batch = args.batch or "batch"
    image = helper.make_tensor_value_info("input", TensorProto.FLOAT, [batch, 3, args.image, args.image])
    result = helper.make_tensor_value_info("output", TensorProto.FLOAT, [batch, args.classes])
    g.save(args, "resnet", [image], [result])


# BERT: embeddings, then layers of attention and feed-forward, as the exporter decomposes them.


def dense(g, scope, x, cin, cout):
    product = g.node(scope, "MatMul", x, g.weight(f"{scope}.weight", cin, cout))
    return g.node(scope, "Add", g.near(f"{scope}.bias", 0, cout), product)


def layer_norm(g, scope, x, hidden, form):
    scale = g.near(f"{scope}.weight", 1, hidden)
    shift = g.near(f"{scope}.bias", 0, hidden)
    if form == "fused":
        return g.node(scope, "LayerNormalization", x, scale, shift, axis=-1, epsilon=1e-12)
    centred = g.node(scope, "Sub", x, g.node(scope, "ReduceMean", x, axes=[-1]))
    square = g.node(scope, "Pow", centred, g.real(scope, 2))
    variance = g.node(scope, "ReduceMean", square, axes=[-1])
    deviation = g.node(scope, "Sqrt", g.node(scope, "Add", variance, g.real(scope, 1e-12)))
    normal = g.node(scope, "Div", centred, deviation)
    return g.node(scope, "Add", g.node(scope, "Mul", normal, scale), shift)


def size_of(g, scope, x, axis):
    size = g.node(scope, "Gather", g.node(scope, "Shape", x), g.constant(scope, axis, numpy.int64), axis=0)
    return g.node(scope, "Unsqueeze", size, g.integers(scope, 0))


def view(g, scope, x, *tail):
    shape = g.node(scope, "Concat", size_of(g, scope, x, 0), size_of(g, scope, x, 1),
                   *[g.integers(scope, t) for t in tail], axis=0)
    return g.node(scope, "Reshape", x, shape)


def attention(g, scope, x, mask, hidden, heads):
    def split(name, permutation):
        y = dense(g, f"{scope}.{name}", x, hidden, hidden)
        return g.node(f"{scope}.{name}", "Transpose", view(g, f"{scope}.{name}", y, heads, hidden // heads),
                      perm=permutation)

    q, k, v = split("query", [0, 2, 1, 3]), split("key", [0, 2, 3, 1]), split("value", [0, 2, 1, 3])
    scores = g.node(scope, "Div", g.node(scope, "MatMul", q, k), g.real(scope, math.sqrt(hidden // heads)))
    weights = g.node(scope, "Softmax", g.node(scope, "Add", scores, mask), axis=-1)
    context = g.node(scope, "Transpose", g.node(scope, "MatMul", weights, v), perm=[0, 2, 1, 3])
    return view(g, scope, context, hidden)


def gelu(g, scope, x):
    error = g.node(scope, "Erf", g.node(scope, "Div", x, g.real(scope, math.sqrt(2))))
    product = g.node(scope, "Mul", x, g.node(scope, "Add", error, g.real(scope, 1)))
    return g.node(scope, "Mul", product, g.real(scope, 0.5))


def embeddings(g, args):
    scope = "embeddings"
    words = g.node(scope, "Gather", g.weight("embeddings.word.weight", args.vocabulary, args.hidden, scale=0.02),
                   "input_ids")
    types = g.node(scope, "Gather", g.weight("embeddings.type.weight", 2, args.hidden, scale=0.02), "token_type_ids")
    ids = g.tensor("embeddings.position_ids", numpy.arange(args.positions, dtype=numpy.int64).reshape(1, -1))
    used = g.node(scope, "Slice", ids, g.integers(scope, 0), size_of(g, scope, "input_ids", 1), g.integers(scope, 1))
    places = g.node(scope, "Gather", g.weight("embeddings.position.weight", args.positions, args.hidden, scale=0.02),
                    used)
    x = g.node(scope, "Add", g.node(scope, "Add", words, types), places)
    return layer_norm(g, "embeddings.norm", x, args.hidden, args.layer_norm)


def bert(args):
    g = Graph(args.seed)
    wide = g.node("mask", "Unsqueeze", g.node("mask", "Unsqueeze", "attention_mask", g.integers("mask", 1)),
                  g.integers("mask", 2))
    absent = g.node("mask", "Sub", g.real("mask", 1), g.node("mask", "Cast", wide, to=TensorProto.FLOAT))
    mask = g.node("mask", "Mul", absent, g.real("mask", -10000))
    x = embeddings(g, args)
    for layer in range(args.layers):
        scope = f"layer.{layer}"
        y = attention(g, f"{scope}.attention", x, mask, args.hidden, args.heads)
        y = dense(g, f"{scope}.attention.output", y, args.hidden, args.hidden)
        x = layer_norm(g, f"{scope}.attention.norm", g.node(scope, "Add", y, x), args.hidden, args.layer_norm)
        y = gelu(g, f"{scope}.intermediate", dense(g, f"{scope}.intermediate", x, args.hidden, args.feed_forward))
        y = dense(g, f"{scope}.output", y, args.feed_forward, args.hidden)
        x = layer_norm(g, f"{scope}.output.norm", g.node(scope, "Add", y, x), args.hidden, args.layer_norm)
    g.nodes[-1].output[0] = x = "last_hidden_state"
    first = g.node("pooler", "Gather", x, g.constant("pooler", 0, numpy.int64), axis=1)
    w = g.weight("pooler.weight", args.hidden, args.hidden)
    pooled = g.node("pooler", "Gemm", first, w, g.near("pooler.bias", 0, args.hidden), alpha=1.0, beta=1.0, transB=1)
    g.node("pooler", "Tanh", pooled)
    g.rename_last("pooled")
    tokens = [args.batch or "batch", args.sequence or "sequence"]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, tokens)
              for name in ("input_ids", "attention_mask", "token_type_ids")]
    outputs = [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, tokens + [args.hidden]),
               helper.make_tensor_value_info("pooled", TensorProto.FLOAT, [args.batch or "batch", args.hidden])]
    g.save(args, "bert", inputs, outputs)


def arguments(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    models = parser.add_subparsers(dest="model", required=True)
    r = models.add_parser("resnet")
    r.add_argument("--blocks", default="3,4,6,3")
    for flag, default in (("width", 64), ("image", 224), ("classes", 1000)):
        r.add_argument(f"--{flag}", type=int, default=default)
    b = models.add_parser("bert")
    for flag, default in (("layers", 12), ("hidden", 768), ("heads", 12), ("feed-forward", 3072),
                          ("vocabulary", 30522), ("positions", 512)):
        b.add_argument(f"--{flag}", type=int, default=default)
    b.add_argument("--layer-norm", choices=["decomposed", "fused"], default="decomposed")
    b.add_argument("--sequence", type=int)
    for p in (r, b):
        p.add_argument("out")
        p.add_argument("--batch", type=int)
        p.add_argument("--seed", type=int, default=0)
        p.add_argument("--opset", type=int, default=17, choices=range(13, 18))
        p.add_argument("--external", action="store_true")
    args = parser.parse_args(words)
    if args.model == "bert" and args.layer_norm == "fused" and args.opset < 17:
        parser.error("--layer-norm fused needs --opset 17")
    return args


def make(words):
    args = arguments(words)
    {"resnet": resnet, "bert": bert}[args.model](args)


def make_folder(folder):
    """Writes the folder's models; keeps those that are newer than this script."""
    os.makedirs(folder, exist_ok=True)
    for name, words in FOLDER_MODELS.items():
        path = os.path.join(folder, name)
        if os.path.exists(path) and os.path.getmtime(path) > os.path.getmtime(__file__):
            continue
        kind, *flags = words.split()
        make([kind, path, *flags])


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1] not in ("-h", "--help", "resnet", "bert"):
        make_folder(sys.argv[1])
    else:
        make(sys.argv[1:])
