"""Plans of unity on PyTorch modules: find one for a module, and lay the module out by it (docs/export.md)."""

from ._apply import Layout, Parameter, Plan, apply, batch_like
from ._find import export_onnx, find, load

__all__ = ["Layout", "Parameter", "Plan", "apply", "batch_like", "export_onnx", "find", "load"]
