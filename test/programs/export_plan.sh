#!/usr/bin/env bash
# `export_plan --to onnx`: two runs give the same file; bad input gives one clear line on standard error and exit code
# 1, and existing files stay.
# usage: export_plan.sh PROGRAM PLAN SCRATCH_DIR
set -u
program=$1 plan=$2 scratch=$3
rm -rf "$scratch" && mkdir -p "$scratch"
failed=0

complain() {
  echo "FAILED: $*"
  failed=1
}

# expect PATTERN PLAN OUT: no file is written, and one that was there stays.
expect() {
  "$program" "$2" --to onnx ${3:+--out "$3"} >"$scratch/stdout" 2>"$scratch/stderr"
  local got=$?
  [ "$got" = 1 ] || complain "$2 to '$3': exit $got"
  [ "$(wc -l <"$scratch/stderr")" = 1 ] && grep -qF -- "$1" "$scratch/stderr" ||
    complain "$2 to '$3': $(cat "$scratch/stderr"); expected '$1'"
  [ ! -s "$scratch/stdout" ] || complain "$2 to '$3': something on standard output"
}

for name in first second; do
  "$program" "$plan" --to onnx --out "$scratch/$name.onnx" >"$scratch/stdout" || complain "$plan"
done
[ ! -s "$scratch/stdout" ] || complain "something unstated of a plan without such"
cmp -s "$scratch/first.onnx" "$scratch/second.onnx" || complain "two runs, two files"

expect '--to onnx: no --out; expected a file' "$plan" ''
printf '{"format": "unity plan"}' >"$scratch/empty.json"
expect 'empty.json' "$scratch/empty.json" "$scratch/none.onnx"
expect 'missing.json' "$scratch/missing.json" "$scratch/none.onnx"
head -c 1500 "$plan" >"$scratch/cut.json"
expect 'cut.json' "$scratch/cut.json" "$scratch/second.onnx"
cmp -s "$scratch/first.onnx" "$scratch/second.onnx" || complain "a failure changed the file that was there"
expect 'nowhere' "$plan" "$scratch/nowhere/plan.onnx"
sed 's/"relu"/"bogus"/g' "$plan" >"$scratch/operator.json"
expect 'operator.json' "$scratch/operator.json" "$scratch/none.onnx"
cp "$plan" "$scratch/own.json"
expect 'which PLAN names, too; expected a file of its own' "$scratch/own.json" "$scratch/own.json"
cmp -s "$plan" "$scratch/own.json" || complain "a plan was written over"
[ -z "$(find "$scratch" -name 'none*' -o -name '*.part' -o -name 'nowhere')" ] || complain "something half-written"
exit $failed
