#!/usr/bin/env bash
# Runs the tests that failed in the last run of a preset again, one at a time, and names those that pass now. Runs none
# if a sanitizer reported an error, as that is not a matter of chance.
# The exit code is the number of tests that fail again (at most 250), or 255 if none could be run.
# usage: again.sh PRESET
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 255
build=$PWD/build/${1:?again.sh PRESET}
report=$build/again.xml
if grep -qE 'ERROR: (Address|Leak|Thread)Sanitizer|WARNING: ThreadSanitizer|: runtime error: ' \
  "$build/Testing/Temporary/LastTest.log"; then
  echo "a sanitizer found something: its report is above"
  exit 255
fi
rm -f "$report"
echo "== once more, one at a time"
ctest --preset "$1" --rerun-failed -j 1 --output-junit "$report" < /dev/null
grep -q '<testcase ' "$report" 2> /dev/null || exit 255

sed -n 's/.*<testcase name="\([^"]*\)".*status="run".*/failed once and passed when run again: \1/p' "$report"
failed=$(grep -c '<testcase .*status="\(fail\|notrun\)"' "$report")
exit $((failed < 250 ? failed : 250))
