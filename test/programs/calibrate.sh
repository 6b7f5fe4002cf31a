#!/usr/bin/env bash
# `calibrate --backend cpu --out m.json`, as a user first types it: everything is measured, exchanges between ranks too.
# usage: calibrate.sh PROGRAM SCRATCH_DIR
# Exit codes: 77 with a reason where this build has no such backend.
set -u
program=$1 scratch=$2
rm -rf "$scratch" && mkdir -p "$scratch/folder" && cd "$scratch" || exit 1
failed=0
check() { # check WHAT COMMAND...: the command must succeed
  local what=$1
  shift
  "$@" || { failed=$((failed + 1)) && echo "FAILED: $what" && cat stderr; }
}

"$program" --backend cpu --out m.json >stdout 2>stderr
code=$?
if grep -q 'this build has no backend' stderr; then
  echo "skipped: $(cat stderr)" && exit 77
fi
check 'it measures' test $code = 0
check 'in silence but for the table' test ! -s stderr
check 'a device' grep -q '"kind": "cpu"' m.json
check 'its memory' grep -qE '"memory_bytes": [1-9][0-9]{7}' m.json
for operator in matmul conv2d; do
  check "its peak in $operator" grep -qE "^  $operator +float32 +[0-9.]+ GFLOP/s" stdout
done
check 'a link of 2 to 4 ranks' grep -qE '"ranks": [2-4]' m.json
for exchange in message all_reduce reduce_scatter all_gather broadcast all_to_all; do
  check "what $exchange costs" grep -q "\"$exchange\": \[" m.json
done

# complains PATTERN ARGUMENT...: at once, in one line; measuring takes longer than this.
complains() {
  local pattern=$1
  shift
  timeout 5 "$program" "$@" >stdout 2>stderr
  [ $? = 1 ] && [ "$(wc -l <stderr)" = 1 ] && grep -qE -- "$pattern" stderr
}
check 'a place that cannot be written is told at once' complains 'nowhere/m.json: cannot be created' --backend cpu --out nowhere/m.json
check 'and so is a folder' complains 'folder: is a folder; expected a file' --backend cpu --out folder
check 'nothing is left there' test -z "$(find . -name '*partial*')"

echo "$failed failed"
((failed == 0))
