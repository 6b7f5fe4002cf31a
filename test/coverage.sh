#!/usr/bin/env bash
# coverage.sh [--room NAME] [--ran]: the covered lines of include/ in the rooms' tests of the preset sanitize: in total,
# by room, and for the 20 files with most uncovered lines. Below 90% is a failure. Builds and runs these tests first,
# unless --ran says that they ran. With a room: only its own tests and files.
# Left out: code that needs a GPU (backend/cuda, NCCL) or MPI, tests that the sanitizers leave out as well, and
# templates that no test instantiates, for which the compiler generates no code. Needs gcovr and llvm-cov-19.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
least=90 room='' ran=0
while (($# > 0)); do
  case $1 in
    --room) room=${2:?--room needs the name of a folder of include/unity} && shift 2 ;;
    --ran) ran=1 && shift ;;
    *) echo "usage: coverage.sh [--room NAME] [--ran]" >&2 && exit 2 ;;
  esac
done
cd "$root"
if [[ -n $room && ! -d include/unity/$room ]]; then
  echo "coverage: no folder include/unity/$room" >&2
  exit 2
fi
for tool in gcovr llvm-cov-19; do
  if ! command -v "$tool" > /dev/null; then
    echo "coverage: no $tool; expected it: bash cmake/setup_debian.sh test" >&2
    exit 1
  fi
done

build=build/sanitize
rooms=${room:-$(find include/unity -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | paste -sd '|')}
failed=0
if ((ran == 0)); then
  cmake --preset sanitize
  find "$build" -name '*.gcda' -delete
  cmake --build --preset sanitize ${room:+--target "test_$room"}
  ctest --preset sanitize ${room:+-L "^$room\$"} || failed=1
fi

# One line a file: its room, its name, its lines, and how many of them were run.
gcovr --gcov-executable "llvm-cov-19 gcov" --root . --object-directory "$build" --filter "include/unity/($rooms)/" \
  --exclude '.*/(cuda|nccl)[^/]*' --exclude '.*/cuda/.*' \
  -j "$(nproc)" --csv "$build/coverage.csv" "$build"
awk -F , -v least="$least" -v failed="$failed" '
  function share(run, all) { return all > 0 ? 100 * run / all : 100 }
  NR > 1 {
    split($1, path, "/")
    all[path[3]] += $2; run[path[3]] += $3
    total += $2; total_run += $3; ++files
    left[files] = $2 - $3; line[files] = sprintf("%8d of %5d  %s", $2 - $3, $2, $1)
  }
  END {
    printf "\n%-10s %8s %8s %6s\n", "room", "lines", "run", "%"
    for (r in all) printf "%-10s %8d %8d %6.1f\n", r, all[r], run[r], share(run[r], all[r]) | "sort"
    close("sort")
    print "\nlines that no test runs"
    for (i = 1; i <= files; ++i) if (left[i] > 0) print line[i] | "sort -rn | head -20"
    close("sort -rn | head -20")
    if (failed) print "\ncoverage: a test failed; its output is above"
    percent = share(total_run, total)
    if (total == 0) print "coverage: no line was counted; expected some"
    if (percent < least) printf "\ncoverage: %.1f%% of lines; expected at least %d%%\n", percent, least
    printf "\n%d of %d lines of %d files run, %.1f%%\n", total_run, total, files, percent
    exit failed || total == 0 || percent < least
  }' "$build/coverage.csv"
