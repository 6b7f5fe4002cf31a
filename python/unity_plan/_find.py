"""Finds a plan for a module: its ONNX file, the programs `parallelize` and `export_plan`, and the module they write."""

import importlib.machinery
import importlib.util
import os
import pathlib
import shutil
import subprocess
import tempfile


def export_onnx(module, args, path):
    """Writes the module as an ONNX file in which weights have the names of the module's parameters.

    A matrix that is read transposed is stored transposed, with ".T" after its name, instead of an operator.
    Raises ValueError if two modules share a parameter: each file of a plan states one layout and one gradient for each.
    """
    import onnx
    import torch

    first = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if first.setdefault(parameter, name) != name:
            raise ValueError(f"{name}: the same parameter as {first[parameter]}; expected parameters of their own")
        if parameter.dim() == 2 and name.endswith(".T"):
            raise ValueError(f"{name}: a matrix named T; expected another name, as .T marks transposed matrices")
    torch.onnx.export(module, args, str(path), dynamo=True, optimize=False, external_data=False, verbose=False)
    model = onnx.load(str(path))
    _name_transposed(model.graph)
    onnx.save(model, str(path))


def _name_transposed(graph):
    import numpy
    from onnx import numpy_helper

    matrices = {w.name: w for w in graph.initializer if len(w.dims) == 2}
    made = {}

    def transposed(name):
        new = name + ".T"
        if new not in made:
            values = numpy.ascontiguousarray(numpy_helper.to_array(matrices[name]).T)
            made[new] = numpy_helper.from_array(values, new)
        return new

    kept = []
    renamed = {}
    results = {value.name for value in graph.output}
    for node in graph.node:
        attributes = {a.name: a for a in node.attribute}
        swaps = "perm" not in attributes or list(attributes["perm"].ints) == [1, 0]
        if node.op_type == "Transpose" and swaps and node.input[0] in matrices and node.output[0] not in results:
            renamed[node.output[0]] = transposed(node.input[0])
            continue
        if node.op_type == "Gemm" and node.input[1] in matrices and "transB" in attributes and attributes["transB"].i:
            node.input[1] = transposed(node.input[1])
            attributes["transB"].i = 0
        for i, name in enumerate(node.input):
            node.input[i] = renamed.get(name, name)
        kept.append(node)
    del graph.node[:]
    graph.node.extend(kept)
    read = {name for node in kept for name in node.input} | {value.name for value in graph.output}
    left = [w for w in [*graph.initializer, *made.values()] if w.name in read]
    del graph.initializer[:]
    graph.initializer.extend(left)


# Plans that a mesh can express: no operators on some of the devices, and no operators that the module does not have.
SEARCH = ("--search", "unity", "--keep-graph", "--dims", "data,model,reduction", "--max-proposals", "0",
          "--baselines", "data,expert")


def find(module, args, machine, options=SEARCH, programs=None, folder=None):
    """The plan that `parallelize` finds for the module, called with these arguments, on the machine.

    programs: the folder of `parallelize` and `export_plan`; by default the environment's UNITY_PROGRAMS, or else PATH.
    folder: keeps model.onnx, plan.json and plan.py. Raises RuntimeError with a program's one line.
    """
    with tempfile.TemporaryDirectory() as scratch:
        into = pathlib.Path(folder or scratch)
        into.mkdir(parents=True, exist_ok=True)
        export_onnx(module, args, into / "model.onnx")
        _run(programs, "parallelize", into / "model.onnx", "--machine", machine, *options, "--out", into)
        return load(into / "plan.json", programs, into / "plan.py")


def load(plan, programs=None, out=None):
    """The plan in a file of `parallelize`. out: the file for the module that `export_plan` writes; None: temporary."""
    with tempfile.TemporaryDirectory() as scratch:
        written = pathlib.Path(out or pathlib.Path(scratch) / "plan.py")
        _run(programs, "export_plan", plan, "--to", "pytorch", "--out", written)
        loader = importlib.machinery.SourceFileLoader("written_plan", str(written))  # whatever the file's ending
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
        loader.exec_module(module)
        return module.PLAN


def _run(programs, name, *arguments):
    folder = programs or os.environ.get("UNITY_PROGRAMS")
    program = str(pathlib.Path(folder) / name) if folder else shutil.which(name)
    if program is None or not pathlib.Path(program).exists():
        raise RuntimeError(f"{name}: no such program; expected it in PATH or in the folder UNITY_PROGRAMS")
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"{name}: failed")
