"""Finds a plan for a module: its ONNX file, the programs `parallelize` and `export_plan`, and the module they write."""

import importlib.machinery
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import warnings

from ._onnx import export_onnx

# Plans that a mesh can express: no operators on some of the devices, and no operators that the module does not have.
SEARCH = ("--search", "unity", "--keep-graph", "--dims", "data,model,reduction", "--max-proposals", "0",
          "--baselines", "data,expert")
SAMPLES = ("--search", "unity", "--keep-graph", "--dims", "data", "--max-proposals", "0", "--baselines", "data")


def find(module, args, machine, options=None, programs=None, folder=None):
    """The fastest plan of `parallelize` for the module, called with these arguments, that PyTorch can express.

    Warns if another plan is faster by a thousandth or more, and says why PyTorch cannot express it.
    options: of `parallelize`; by default SEARCH, and SAMPLES if PyTorch can express none of its plans.
    programs: the folder of `parallelize` and `export_plan`; by default the environment's UNITY_PROGRAMS, or else PATH.
    folder: keeps model.onnx, plan.json and plan.py. Raises RuntimeError with a program's one line.
    """
    with tempfile.TemporaryDirectory() as scratch:
        into = pathlib.Path(folder or scratch)
        into.mkdir(parents=True, exist_ok=True)
        export_onnx(module, args, into / "model.onnx")
        refused = []  # seconds, and why
        for number, chosen in enumerate([options] if options else [SEARCH, SAMPLES]):
            plans = pathlib.Path(scratch) / f"plans_{number}"
            _run(programs, "parallelize", into / "model.onnx", "--machine", machine, *chosen, "--plans", plans)
            for file in sorted(plans.glob("*.json"), key=_seconds):
                try:
                    plan = load(file, programs, into / "plan.py")
                except RuntimeError as why:
                    refused.append((_seconds(file), f"{file.stem}: {why}"))
                    continue
                longer = _seconds(file) / refused[0][0] if refused else 1
                if longer >= 1.001:
                    warnings.warn(f"the plan takes {longer:.3f} times as long as the fastest one, which PyTorch cannot "
                                  f"express; {refused[0][1]}", stacklevel=2)
                shutil.copyfile(file, into / "plan.json")
                return plan
        raise RuntimeError(refused[-1][1])


def _seconds(file):
    return json.loads(file.read_text())["predicted"]["iteration_s"]


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
        said = [line for line in done.stderr.splitlines() if line and not line.startswith("Run with --help")]
        raise RuntimeError(said[-1] if said else f"{name}: failed")
