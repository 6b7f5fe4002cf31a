#!/usr/bin/env bash
# A part of ONNX's own tests that takes half a minute: each result of `optimize` computes the same as its original.
# usage: backend_tests.sh SCRIPT OPTIMIZE SCRATCH_DIR
# Exit codes: 0; 1 if a check fails; 77 with a reason if no onnx with onnxruntime is installed (activate the
# virtual environment that has them).
set -u
script=$1 optimize=$2 scratch=$3
rm -rf "$scratch" && mkdir -p "$scratch"
python=$(command -v python3)
# shellcheck source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"

# -S: a Python without any installed package.
check 'packages are missed in one line' complains 1 'cannot be imported.*pip install' "$python" -S "$script"
if ! "$python" -c 'import onnx.reference, onnxruntime' 2>"$scratch/stderr"; then
  [ "$failed" = 0 ] || finish
  echo "skipped: $python has no onnx with onnxruntime ($(tail -n 1 "$scratch/stderr"))"
  exit 77
fi

# What was wrong or not loaded while files were written in another opset, and forms that differ between opsets.
names='hardmax|/test_scan|isinf|clip_default_int8_min|qlinearmatmul|optional_get|softmax_axis|squeeze|symbolic_override|light_squeeze'
check 'none is wrong, and none crashes' silent "$python" -W ignore "$script" --optimize "$optimize" --only "$names" \
  --json "$scratch/results.json"
check 'and all are right' json "$scratch/results.json" \
  'len(x) > 50 and all(kind == "right" for kind, why in x.values())'
finish
