#!/usr/bin/env bash
# Random graphs of NNSmith, a few: each result of optimize computes what its original does.
# usage: random_graphs.sh SCRIPT OPTIMIZE SCRATCH_DIR
# Exit codes: 0; 1 where a check fails; 77 with a reason where no NNSmith with torch, onnx and onnxruntime is installed
# (activate the virtual environment that has them).
set -u
script=$1 optimize=$2 scratch=$3
rm -rf "$scratch" && mkdir -p "$scratch"
python=$(command -v python3)
# shellcheck source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"

# -S: a Python without any installed package.
check 'packages are missed in one line' complains 1 'cannot be imported.*pip install' "$python" -S "$script"
if ! "$python" -W ignore -c 'import nnsmith, torch, onnx.reference, onnxruntime' 2>"$scratch/stderr"; then
  [ "$failed" = 0 ] || finish
  echo "skipped: $python has no nnsmith with torch, onnx and onnxruntime ($(tail -n 1 "$scratch/stderr"))"
  exit 77
fi

check 'none differs, and none crashes' silent "$python" -W ignore "$script" --optimize "$optimize" --count 10 \
  --json "$scratch/results.json"
check 'and most are right' json "$scratch/results.json" 'sum(kind == "right" for kind, why in x.values()) > 5'
finish
