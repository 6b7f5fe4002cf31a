#!/usr/bin/env bash
# The whole test suite: installs what is missing (Debian 12), builds everything with g++, runs every test. With the
# preset `ci`, without the tests of rooms that the preset `sanitize` has. usage: run.sh [PRESET]
# The last line is "N passed, N failed"; the line before it has the number of skipped tests, if any, which print what
# they lack. The exit code is 0 if none failed. A test that fails runs a second time, alone, and is named if it passes
# then: tests that depend on clocks, ranks and other programs can fail on a busy machine.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
preset=${1:-test}
cd "$root"
bash cmake/setup_debian.sh test
cmake --preset "$preset"

# What does not build is a test that fails, and no reason not to run the others.
built=0
cmake --build --preset "$preset" -- -k 0 || built=$?

report=$root/build/$preset/report.xml
rm -f "$report"
ctest --preset "$preset" -j 2 --output-junit "$report" || true

all=$(grep -c '<testcase ' "$report")
passed=$(grep -c '<testcase .*status="run"' "$report" || true)
skipped=$(grep -c '<skipped message="SKIP_' "$report" || true)
failed=$((all - passed - skipped))
if ((failed > 0)); then
  again=0
  bash test/again.sh "$preset" || again=$?
  if ((again != 255)); then
    failed=$again
    passed=$((all - skipped - failed))
  fi
fi
if ((built != 0)); then
  echo "the build failed; its first error is above" >&2
  ((failed += 1))
fi
if ((skipped > 0)); then
  echo "$skipped skipped"
fi
echo "$passed passed, $failed failed"
((failed == 0))
