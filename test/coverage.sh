#!/usr/bin/env bash
# coverage.sh [--room NAME]: builds the tests with g++ --coverage, runs them, and says how many lines of include/ they
# run: in all, by room, and of the 20 files of which most is left. Below 90% is a failure. With a room its own tests
# and its own files alone, which takes minutes rather than hours.
# Left out: what needs a GPU (backend/cuda, NCCL), tests that the sanitizers leave out as well, and templates that no test
# instantiates, of which the compiler writes no code. Needs gcovr.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
least=90
room=
while (($# > 0)); do
  case $1 in
    --room) room=${2:?--room needs the name of a folder of include/unity} && shift 2 ;;
    *) echo "usage: coverage.sh [--room NAME]" >&2 && exit 2 ;;
  esac
done
cd "$root"
if [[ -n $room && ! -d include/unity/$room ]]; then
  echo "coverage: no folder include/unity/$room" >&2
  exit 2
fi
if ! command -v gcovr > /dev/null; then
  echo "coverage: no gcovr; expected it: apt-get install gcovr" >&2
  exit 1
fi

build=build/coverage
mkdir -p "$build"
cmake -S . -B "$build" -G Ninja -D CMAKE_CXX_COMPILER=g++ -D CMAKE_CXX_FLAGS="--coverage -fprofile-update=atomic" \
  -D UNITY_TEST_OPTIMIZATION=-O0 -D UNITY_BUILD_EXAMPLES=OFF -D UNITY_BUILD_BENCHMARKS=OFF -D UNITY_TEST_HEADERS=OFF \
  -D UNITY_TEST_EXHAUSTIVE=OFF -D UNITY_TEST_BATCH=16 -D UNITY_WITH_CUDA=OFF -D UNITY_WITH_NCCL=OFF > "$build/configure.log" ||
  { cat "$build/configure.log" && exit 1; }
find "$build" -name '*.gcda' -delete
if [[ -n $room ]]; then
  cmake --build "$build" --target "test_$room"
  rooms=$room
else
  cmake --build "$build"
  rooms=$(find include/unity -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | paste -sd '|')
fi
failed=0
ctest --test-dir "$build" -j "$(nproc)" -L "^($rooms)\$" --output-on-failure || failed=1

# One line a file: its room, its name, its lines, and how many of them were run.
gcovr --root . --object-directory "$build" --filter "include/unity/($rooms)/" --exclude '.*/(cuda|nccl)[^/]*' \
  --exclude '.*/cuda/.*' -j "$(nproc)" --csv "$build/coverage.csv" "$build/test"
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
