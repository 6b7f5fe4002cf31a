#!/usr/bin/env bash
# HLO according to XLA: a module that is read and written stays the same, and random fusions compute the same.
# usage: hlo.sh SCRIPT REWRITE DUMPS SCRATCH_DIR
# Exit codes: 0; 1 if a check fails; 77 with a reason if there is no JAX of the version that SCRIPT is for
# (activate the virtual environment that has it).
set -u
script=$1 rewrite=$2 dumps=$3 scratch=$4
rm -rf "$scratch" && mkdir -p "$scratch"
python=$(command -v python3)
# shellcheck source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"

check 'a module is written' silent "$rewrite" "$dumps/mlp.before.hlo" --out "$scratch/once.hlo"
check 'and what was written is written the same' silent "$rewrite" "$scratch/once.hlo" --out "$scratch/twice.hlo"
check 'to the last byte' cmp "$scratch/once.hlo" "$scratch/twice.hlo"
head -c 3000 "$dumps/mlp.before.hlo" >"$scratch/cut.hlo"
check 'a module that is cut is told with its line' complains 1 'cut.hlo:[0-9]*:[0-9]*: .*; expected' \
  "$rewrite" "$scratch/cut.hlo" --out "$scratch/none.hlo"
check 'and nothing is written' test ! -e "$scratch/none.hlo"

version=$(sed -n 's/^VERSION = "\([^"]*\)".*/\1/p' "$script")
if ! "$python" -c "import jax, sys; sys.exit(jax.__version__ != '$version')" 2>"$scratch/stderr"; then
  [ "$failed" = 0 ] || finish
  echo "skipped: $python has no jax $version"
  exit 77
fi
check 'XLA reads the same modules' "$python" "$script" compare "$dumps" --tool "$rewrite"
check 'random fusions and combined all-reduces compute the same' "$python" "$script" run --tool "$rewrite" --seeds 2
finish
