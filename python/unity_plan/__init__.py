"""Plans of unity for PyTorch modules: finds a plan for a module, and distributes the module by it (docs/export.md)."""

from ._apply import Cut, Layout, Parameter, Pipeline, Plan, apply, batch_like
from ._find import export_onnx, find, load
from ._pipeline import Staged, pipeline

__all__ = ["Cut", "Layout", "Parameter", "Pipeline", "Plan", "Staged", "apply", "batch_like", "export_onnx", "find",
           "load", "pipeline"]
