#!/usr/bin/env bash
# Some random graphs of NNSmith: each result of `optimize` computes the same as its original.
# usage: random_graphs.sh SCRIPT OPTIMIZE SCRATCH_DIR
# Exit codes: 0; 1 if a check fails; 77 with a reason if no NNSmith with torch, onnx and onnxruntime is installed
# (activate the virtual environment that has them).
set -u
script=$1 optimize=$2 scratch=$3
rm -rf "$scratch" && mkdir -p "$scratch"
python=$(command -v python3)
# shellcheck source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"

# -S: a Python without any installed package.
check 'packages are missed in one line' complains 1 'cannot be imported.*pip install' "$python" -S "$script"
# With stand-ins for the packages, of which NNSmith's first probe fails.
cat >"$scratch/no_probe.py" <<'END'
import runpy, sys
from unittest import mock
for name in ("backend_tests", "numpy", "onnx", "onnx.numpy_helper", "onnxruntime", "torch", "nnsmith",
             "nnsmith.backends", "nnsmith.backends.factory", "nnsmith.graph_gen", "nnsmith.materialize",
             "nnsmith.narrow_spec"):
    sys.modules[name] = mock.MagicMock()
sys.modules["nnsmith.narrow_spec"].auto_opset.side_effect = RuntimeError("no engine\nat all")
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
END
check 'a first probe that fails is one line' complains 1 '^random_graphs: RuntimeError: no engine at all; expected' \
  "$python" "$scratch/no_probe.py" "$script"
if ! "$python" -W ignore -c 'import nnsmith, torch, onnx.reference, onnxruntime' 2>"$scratch/stderr"; then
  [ "$failed" = 0 ] || finish
  echo "skipped: $python has no nnsmith with torch, onnx and onnxruntime ($(tail -n 1 "$scratch/stderr"))"
  exit 77
fi

check 'none differs, and none crashes' silent "$python" -W ignore "$script" --optimize "$optimize" --count 10 \
  --json "$scratch/results.json"
check 'and most are right' json "$scratch/results.json" 'sum(kind == "right" for kind, why in x.values()) > 5'
finish
