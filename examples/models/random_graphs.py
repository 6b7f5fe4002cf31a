#!/usr/bin/env python3
"""Optimizes random graphs from NNSmith and compares the outputs of the results.

    random_graphs.py [--optimize PROGRAM] [--count N] [--seed S] [--nodes N] [--minutes M]
                     [--keep DIR] [--json F]

Graph number i has seed S + i and up to N operators. `optimize` runs on it; then the original and the result
run on the same random inputs in onnxruntime, as in backend_tests.py. A result is

    right         the outputs are those of the original
    unstable      other numbers, but so has the original if the last digits of its real inputs or constants change, or
                  without the engine's own optimizations
    differs       other outputs
    cannot load   onnxruntime runs the original but not the result
    refused       optimize refuses the graph with a one-line reason
    crashed       optimize fails in another way, or takes longer than --seconds
    no engine     onnxruntime does not run the original
    not made      NNSmith or PyTorch's exporter fails

Needs Python 3.9 and `pip install nnsmith torch onnx onnxruntime numpy`. Exit codes: 0; 1 if one differs, cannot load
or crashed, or if NNSmith cannot try its operators in onnxruntime; 2 for bad usage.
"""

import argparse
import collections
import functools
import json
import logging
import os
import re
import sys
import time
import warnings

import backend_tests

try:
    import numpy
    import onnx
    import onnx.numpy_helper
    import onnxruntime
    warnings.filterwarnings("ignore")
    import torch
    from nnsmith.backends.factory import BackendFactory
    from nnsmith.graph_gen import model_gen
    from nnsmith.materialize import Model
    from nnsmith.narrow_spec import auto_opset
except ImportError as e:
    sys.exit(f"{e.name}: cannot be imported by {sys.executable}; expected what "
             "`pip install nnsmith torch onnx onnxruntime numpy` installs")

KINDS = ("right", "unstable", "differs", "cannot load", "refused", "crashed", "no engine", "not made")


def reason_of(e):
    """An exception in one line."""
    return " ".join(f"{type(e).__name__}: {e}".split())[:200]


class Maker:
    def __init__(self):
        # NNSmith's models test whether a tensor has a value, which only the tracing exporter supports.
        torch.onnx.export = functools.partial(torch.onnx.export, dynamo=False)
        onnx._serialize = onnx.ModelProto.SerializeToString  # NNSmith needs this name of older versions
        logging.disable(logging.WARNING)
        self.kind = Model.init("onnx", backend_target="cpu")
        # Takes minutes the first time: tries each operator and type in the engine, and caches the results.
        try:
            self.operators = auto_opset(self.kind, BackendFactory.init("onnxruntime", target="cpu", optmax=False))
        except Exception as e:  # NNSmith, the exporter and the engine raise whatever they like
            sys.exit(f"random_graphs: {reason_of(e)}; expected NNSmith to try its operators in onnxruntime")

    def make(self, seed, nodes):
        """Returns (model, inputs by name)."""
        numpy.random.seed(seed)
        torch.manual_seed(seed)
        made = model_gen(opset=self.operators, method="symbolic-cinit", seed=seed, max_nodes=nodes,
                         max_elem_per_tensor=4096, timeout_ms=10000)
        model = self.kind.from_gir(made.make_concrete())
        model.refine_weights()
        inputs = {name: numpy.asarray(value) for name, value in model.make_oracle().input.items()}
        return model.native_model, inputs


def next_to(x, sign):
    """Real numbers moved to a neighbouring one, up or down; others unchanged."""
    return numpy.nextafter(x, numpy.asarray(sign * numpy.inf, x.dtype)) if x.dtype.kind == "f" else x


def with_other_constants(model, sign):
    """The model with its real weights moved to neighbouring numbers."""
    other = onnx.ModelProto()
    other.CopyFrom(model)
    for tensor in other.graph.initializer:
        tensor.CopyFrom(onnx.numpy_helper.from_array(next_to(onnx.numpy_helper.to_array(tensor), sign), tensor.name))
    return other


def is_unstable(model, inputs):
    """Whether the original's outputs depend on last digits of inputs or weights, or on the engine's optimizations."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL

    def run(m, values):
        session = onnxruntime.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, values)

    before = run(model, inputs)
    others = [backend_tests.run_in_onnxruntime(model, inputs)]
    for sign in (-1, 1):
        others.append(run(model, {name: next_to(x, sign) for name, x in inputs.items()}))
        others.append(run(with_other_constants(model, sign), inputs))
    return any(backend_tests.difference(before, other) for other in others)


def judged(args, model, inputs):
    """Returns (kind of result, reason)."""
    _, problem = backend_tests.attempt(backend_tests.run_in_onnxruntime, model, inputs)
    if problem:
        return "no engine", problem
    kind, why = backend_tests.judged(args, model, inputs)
    if kind != "wrong":
        return kind, why
    if "cannot run" in why:
        return "cannot load", why
    return ("unstable" if is_unstable(model, inputs) else "differs"), why


def keep(folder, name, model, inputs):
    os.makedirs(folder, exist_ok=True)
    onnx.save(model, os.path.join(folder, name + ".onnx"))
    numpy.savez(os.path.join(folder, name + ".npz"), **inputs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--optimize", metavar="PROGRAM", default="optimize",
                        help="path of the program; default: in PATH")
    parser.add_argument("--count", type=int, default=100, help="graphs; default: 100")
    parser.add_argument("--seed", type=int, default=0, help="of the first graph")
    parser.add_argument("--nodes", type=int, default=12, help="operators of a graph at most; default: 12")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="after which no graph is begun")
    parser.add_argument("--keep", metavar="DIR", help="where originals that are not right are kept, with their inputs")
    parser.add_argument("--seconds", type=float, default=60, help="that one run of optimize may take")
    parser.add_argument("--json", metavar="F", help="file for kind and reason of each graph")
    args = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    maker, keeps, results = Maker(), args.keep, {}
    args.kept, args.keep = set(), None  # read by backend_tests
    end = time.monotonic() + 60 * args.minutes
    for seed in range(args.seed, args.seed + args.count):
        if time.monotonic() > end:
            break
        args.name = f"graph_{seed}"
        try:
            model, inputs = maker.make(seed, args.nodes)
        except Exception as e:  # NNSmith and the exporter raise whatever they like
            results[args.name] = "not made", reason_of(e)
            continue
        kind, why = results[args.name] = judged(args, model, inputs)
        if kind in ("differs", "cannot load", "refused", "crashed"):
            print(args.name, kind, why, flush=True)
        if keeps and kind not in ("right", "no engine"):
            keep(keeps, args.name, model, inputs)
    counts = collections.Counter(kind for kind, _ in results.values())
    print(f"{len(results)} graphs of NNSmith, seeds from {args.seed} on, in onnxruntime {onnxruntime.__version__}")
    for kind in KINDS:
        print(f"{kind:<12} {counts[kind]:5}")
    reasons = collections.Counter((kind, re.sub(r"'[^']*'|\d+", "_", why)[:160]) for kind, why in results.values()
                                  if kind not in ("right", "unstable"))
    for (kind, why), count in reasons.most_common():
        print(f"  {count:4} {kind}: {why}")
    if args.json:
        with open(args.json, "w") as f:
            json.dump(results, f, indent=1)
    return 1 if counts["differs"] or counts["cannot load"] or counts["crashed"] else 0


if __name__ == "__main__":
    sys.exit(main())
