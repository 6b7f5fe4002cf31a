#!/usr/bin/env bash
# fuzz.sh [--seconds N | --minutes N] [--preset NAME] [TARGET...]: builds the fuzz targets (clang-19) and runs each for
# this time, as many at once as there are cores, after the inputs in test/fuzz/corpus. New inputs stay in
# build/fuzz/corpus; an input that breaks a target is named and kept in build/fuzz/found, and the exit code is 1. Add it
# to the corpus after repairing the defect. The last line counts.
# The default preset is fuzz: all code of a target is optimized and instrumented for libFuzzer. With the preset sanitize
# the targets share the library of the tests, without that instrumentation: it builds minutes faster, and suffices to
# repeat known inputs.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
seconds=60
preset=fuzz
timeout=10  # seconds of an input
targets=()
while (($# > 0)); do
  case $1 in
    --seconds) seconds=${2:?--seconds needs a number} && shift 2 ;;
    --minutes) seconds=$((${2:?--minutes needs a number} * 60)) && shift 2 ;;
    --preset) preset=${2:?--preset needs a name} && shift 2 ;;
    -*) echo "usage: fuzz.sh [--seconds N | --minutes N] [--preset NAME] [TARGET...]" >&2 && exit 2 ;;
    *) targets+=("$1") && shift ;;
  esac
done

cd "$root"
if [[ $preset != fuzz ]]; then
  timeout=60                                # nothing is optimized
  export GCOV_PREFIX=$root/build/fuzz/gcov  # lines that these runs execute are none that tests do
fi
cmake --preset "$preset"
if ((${#targets[@]} == 0)); then
  cmake --build --preset "$preset" --target fuzzers
else
  cmake --build --preset "$preset" --target "${targets[@]/#/fuzz_}"
fi
if ((${#targets[@]} == 0)); then
  for source in test/fuzz/*.cpp; do
    target=$(basename "$source" .cpp)
    if [[ -x build/$preset/fuzz/fuzz_$target ]]; then
      targets+=("$target")
    fi
  done
fi

if ((${#targets[@]} == 0)); then
  echo "fuzz: no targets were built; what they need is said above" >&2
  exit 1
fi
mkdir -p build/fuzz/found build/fuzz/log
run() { # run TARGET
  local own=build/fuzz/corpus/$1 arguments=()
  mkdir -p "$own"
  if [[ -d test/fuzz/corpus/$1 ]]; then
    arguments+=("test/fuzz/corpus/$1")
  fi
  if [[ -f test/fuzz/$1.dict ]]; then
    arguments+=(-dict="test/fuzz/$1.dict")
  fi
  # Lines are counted in a place of its own: targets that end together crashed while they added to the same files.
  GCOV_PREFIX=$PWD/build/fuzz/counts/$1 \
    "build/$preset/fuzz/fuzz_$1" -max_total_time="$seconds" -timeout="$timeout" -rss_limit_mb=2048 \
    -print_final_stats=1 -verbosity=0 -artifact_prefix="build/fuzz/found/$1-" "$own" "${arguments[@]}" \
    < /dev/null > "build/fuzz/log/$1" 2>&1
}

# With a rule among its rules that does not hold, the target of rewriting says so: else it could say nothing.
failed=()
if [[ " ${targets[*]} " == *" rewriting "* ]]; then
  wrong=$(UNITY_FUZZ_RULES=test/soak/wrong.rules build/$preset/fuzz/fuzz_rewriting -runs=0 \
    -artifact_prefix=build/fuzz/log/ test/fuzz/corpus/rewriting 2>&1 < /dev/null || true)
  if [[ $wrong != *"rule differences_swapped: another result"* ]]; then
    echo "fuzz: rewriting: a wrong rule was not found; expected 'rule differences_swapped: another result'"
    failed+=("wrong rule")
  fi
fi

declare -A of_process=()
trap '((${#of_process[@]} == 0)) || kill "${!of_process[@]}" 2> /dev/null || true' EXIT
trap 'exit 130' INT TERM  # processes in the background ignore the first
reap() { # waits for one of them
  local code=0 process target
  wait -n -p process || code=$?
  target=${of_process[$process]}
  if ((code == 0)); then
    echo "fuzz: $target: $(awk '/executed_units/ { print $2 }' "build/fuzz/log/$target") inputs in $seconds s"
  else
    echo "fuzz: $target: exit $code"
    tail -n 40 "build/fuzz/log/$target"
    failed+=("$target")
  fi
  unset "of_process[$process]"
}
for target in "${targets[@]}"; do
  if ((${#of_process[@]} >= $(nproc))); then
    reap
  fi
  run "$target" &
  of_process[$!]=$target
done
while ((${#of_process[@]} > 0)); do
  reap
done

inputs=$(cat "${targets[@]/#/build/fuzz/log/}" | awk '/executed_units/ { n += $2 } END { print n + 0 }')
echo "fuzz: ${#targets[@]} targets, $inputs inputs, ${#failed[@]} failed ${failed[*]-}"
((${#failed[@]} == 0))
