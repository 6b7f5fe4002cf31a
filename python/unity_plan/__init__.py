"""Plans of unity for PyTorch modules: finds a plan for a module, and distributes the module by it (docs/export.md)."""

from ._apply import Cut, Layout, Parameter, Pipeline, Plan, apply, batch_like
from ._find import find, load
from ._onnx import export_onnx
from ._pipeline import Staged, pipeline

__all__ = ["Cut", "Layout", "Parameter", "Pipeline", "Plan", "Staged", "apply", "batch_like", "export_onnx", "find",
           "load", "pipeline"]
