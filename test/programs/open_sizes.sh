#!/usr/bin/env bash
# Small models of PyTorch whose sizes are computed from open ones: results hold for all sizes and compute the same.
# usage: open_sizes.sh SCRIPT OPTIMIZE SCRATCH_DIR
# Exit codes: 0; 1 if a check fails; 77 with a reason if no torch with onnx and onnxruntime is installed (activate
# the virtual environment that has them).
set -u
script=$1 optimize=$2 scratch=$3
rm -rf "$scratch" && mkdir -p "$scratch"
python=$(command -v python3)
# shellcheck source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"

# -S: a Python without any installed package.
check 'packages are missed in one line' complains 1 'cannot be imported.*pip install' "$python" -S "$script" "$scratch"
if ! "$python" -W ignore -c 'import torch, onnx, onnxruntime' 2>"$scratch/stderr"; then
  [ "$failed" = 0 ] || finish
  echo "skipped: $python has no torch with onnx and onnxruntime ($(tail -n 1 "$scratch/stderr"))"
  exit 77
fi

open_sizes() { "$python" -W ignore "$script" "$scratch/models" --optimize "$optimize" --exporter script "$@" 2>&1; }
check 'halves, strides and patches are written for all sizes' \
  test "$(open_sizes halves strides patches | grep -c 'written for all sizes')" = 3
check 'a model that is not there is told' complains 2 'no model thirds; expected one of halves' \
  "$python" -W ignore "$script" "$scratch/models" thirds
finish
