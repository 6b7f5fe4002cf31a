#!/usr/bin/env bash
# fuzz.sh [--seconds N | --minutes N] [TARGET...]: builds the fuzz targets (clang-19) and runs each for that long,
# from its corpus in test/fuzz/corpus. New inputs stay in build/fuzz/corpus; an input that breaks a target is named,
# kept in build/fuzz/found, and the exit code is 1. Add it to the corpus once the defect is repaired.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
seconds=60
targets=()
while (($# > 0)); do
  case $1 in
    --seconds) seconds=${2:?--seconds needs a number} && shift 2 ;;
    --minutes) seconds=$((${2:?--minutes needs a number} * 60)) && shift 2 ;;
    -*) echo "usage: fuzz.sh [--seconds N | --minutes N] [TARGET...]" >&2 && exit 2 ;;
    *) targets+=("$1") && shift ;;
  esac
done

cd "$root"
cmake --preset fuzz
cmake --build --preset fuzz
if ((${#targets[@]} == 0)); then
  for source in test/fuzz/*.cpp; do
    target=$(basename "$source" .cpp)
    if [[ -x build/fuzz/fuzz/fuzz_$target ]]; then
      targets+=("$target")
    fi
  done
fi

mkdir -p build/fuzz/found
failed=()
for target in ${targets[@]+"${targets[@]}"}; do
  own=build/fuzz/corpus/$target
  mkdir -p "$own"
  arguments=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0
    -artifact_prefix="build/fuzz/found/$target-" "$own")
  if [[ -d test/fuzz/corpus/$target ]]; then
    arguments+=("test/fuzz/corpus/$target")
  fi
  if [[ -f test/fuzz/$target.dict ]]; then
    arguments+=(-dict="test/fuzz/$target.dict")
  fi
  echo "fuzz: $target for $seconds s"
  "build/fuzz/fuzz/fuzz_$target" "${arguments[@]}" < /dev/null || failed+=("$target")
done

echo "fuzz: ${#targets[@]} targets, ${#failed[@]} failed ${failed[*]-}"
((${#failed[@]} == 0))
