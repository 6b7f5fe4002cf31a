#!/usr/bin/env python3
"""Runs models in OpenVINO on the CPU for `optimize --target openvino`: see engine_timer.py.

Products are of float32, as they are written: by default the engine may round them to less on some processors. Needs
Python 3.9 and `pip install openvino numpy`; onnx too for models of dynamic sizes, since the engine drops their names.
"""

import os
import sys

import compare_engines as engines
import engine_timer

TYPES = {"f16": "float16", "f32": "float", "f64": "double", "boolean": "bool", "i8": "int8", "i16": "int16",
         "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64"}


class Port:
    def __init__(self, port, path, shapes):
        self.name = port.get_any_name()
        kind = port.get_element_type().get_type_name()
        self.type = f"tensor({TYPES.get(kind, kind)})"
        shape = port.get_partial_shape()
        if shape.is_dynamic:
            self.shape = shapes(path)[self.name]
        else:
            self.shape = [size.get_length() for size in shape]


def named_shapes(path):
    """Of the inputs, by name: a size, or the name of what has none."""
    try:
        import onnx
    except ImportError as e:
        raise engines.Problem(f"{path}: has dynamic sizes, and onnx cannot be imported for their names "
                              f"({engines.one_line(e)}); expected what `pip install onnx` installs") from e
    graph = onnx.load(path, load_external_data=False).graph
    return {entry.name: [size.dim_value if size.HasField("dim_value") else size.dim_param or None
                         for size in entry.type.tensor_type.shape.dim] for entry in graph.input}


class Session:
    def __init__(self, compiled, inputs, outputs):
        self.request, self.inputs, self.outputs = compiled.create_infer_request(), inputs, outputs

    def get_inputs(self):
        return self.inputs

    def get_outputs(self):
        return self.outputs

    def run(self, _, feed):
        found = self.request.infer(feed, share_inputs=True)
        return [found[number].copy() for number in range(len(self.outputs))]


class OpenVino:
    name = "openvino"

    def __init__(self):
        try:
            import numpy  # of what the timer makes its inputs
            import openvino
        except ImportError as e:
            raise engines.Problem(f"openvino: cannot be imported by {sys.executable} ({engines.one_line(e)}); "
                                  "expected what `pip install openvino numpy` installs") from e
        self.core = openvino.Core()
        self.version = openvino.__version__.split("-")[0]

    def open(self, path, threads):
        if not os.path.isfile(path):
            raise engines.Problem(f"{path}: no such file; expected an ONNX model")
        try:
            model = self.core.read_model(path)
            compiled = self.core.compile_model(model, "CPU", {
                "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"})
        except Exception as e:  # of any kind: engines fail in many ways
            raise engines.Problem(f"{path}: openvino does not take it: {engines.one_line(e)}") from e
        return Session(compiled, [Port(p, path, named_shapes) for p in model.inputs],
                       [Port(p, path, lambda _: {p.get_any_name(): []}) for p in model.outputs])


if __name__ == "__main__":
    sys.exit(engine_timer.serve(OpenVino))
