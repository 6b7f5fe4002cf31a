#!/usr/bin/env bash
# Runs the tests that failed in the last run of a preset once more, one at a time, and names those that pass now.
# The exit code is the number of those that fail again (at most 250), or 255 if none could be run.
# usage: again.sh PRESET
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
report=$PWD/build/$1/again.xml
rm -f "$report"
echo "== once more, one at a time"
ctest --preset "$1" --rerun-failed -j 1 --output-junit "$report" < /dev/null || true
[[ -f $report ]] || exit 255

sed -n 's/.*<testcase name="\([^"]*\)".*status="run".*/failed once and passed when run again: \1/p' "$report"
failed=$(grep -c '<testcase .*status="\(fail\|notrun\)"' "$report" || true)
exit $((failed < 250 ? failed : 250))
