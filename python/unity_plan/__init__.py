"""Plans of unity on PyTorch modules: find one for a module, and lay the module out by it (docs/export.md)."""

from ._apply import Cut, Layout, Parameter, Pipeline, Plan, apply, batch_like
from ._find import export_onnx, find, load
from ._pipeline import Staged, pipeline

__all__ = ["Cut", "Layout", "Parameter", "Pipeline", "Plan", "Staged", "apply", "batch_like", "export_onnx", "find",
           "load", "pipeline"]
