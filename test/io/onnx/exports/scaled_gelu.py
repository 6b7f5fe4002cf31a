#!/usr/bin/env python3
"""Makes the files beside it: gelu of x * scale. The scale is a parameter without dimensions; exporters write the gelu
with numbers of the program. By torch.export (scaled_gelu_export.onnx) and by PyTorch's older exporter
(scaled_gelu_script.onnx). Needs `pip install torch onnx onnxscript`; made with torch 2.15."""

import pathlib

import torch


class ScaledGelu(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(0.75))

    def forward(self, x):
        return torch.nn.functional.gelu(x * self.scale)


folder = pathlib.Path(__file__).resolve().parent
exporters = {"export": {"dynamo": True, "opset_version": 18, "external_data": False},
             "script": {"dynamo": False, "opset_version": 17}}
for name, how in exporters.items():
    torch.onnx.export(ScaledGelu(), (torch.zeros(2, 3),), str(folder / f"scaled_gelu_{name}.onnx"), **how)
