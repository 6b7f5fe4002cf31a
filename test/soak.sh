#!/usr/bin/env bash
# soak.sh [--minutes N | --seconds N] [--seed S] [--build DIR]: random searches over random models, one process
# per core; every graph that a search builds must compute the same as its model. A mismatch prints the seed, the round
# and the rules that led to the graph.
# DIR: the folder of the tests (by default build/test, which is built then). The last line counts; the exit code is 0 if
# no graph differs.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
seconds=60 seed=$((RANDOM * 32768 + RANDOM)) build=
while (($# > 0)); do
  case $1 in
    --minutes) seconds=$((${2:?--minutes needs a number} * 60)) && shift 2 ;;
    --seconds) seconds=${2:?--seconds needs a number} && shift 2 ;;
    --seed) seed=${2:?--seed needs a number} && shift 2 ;;
    --build) build=${2:?--build needs a folder} && shift 2 ;;
    *) echo "usage: soak.sh [--minutes N | --seconds N] [--seed S] [--build DIR]" >&2 && exit 2 ;;
  esac
done
if [[ -z $build ]]; then
  build=$root/build/test
  cmake -S "$root" --preset test >/dev/null
  cmake --build "$build" --target test_soak
fi
scratch=$(mktemp -d)
processes=()
trap '((${#processes[@]} == 0)) || kill "${processes[@]}" 2>/dev/null || true; rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM  # processes in the background ignore the first
for ((i = 0; i < $(nproc); ++i)); do
  "$build/test/soak/test_soak" --seconds "$seconds" --seed $((seed + i)) >"$scratch/$i" 2>&1 &
  processes+=($!)
done
failed=0
for process in "${processes[@]}"; do
  wait "$process" || failed=$((failed + 1))
done
cat "$scratch"/*
graphs=$(cat "$scratch"/* | awk '/ different graphs checked in / { n += $1 } END { print n + 0 }')
mismatches=$(cat "$scratch"/* | grep -c '^MISMATCH' || true)
checked="$graphs different graphs checked by ${#processes[@]} processes, which may share some"
echo "$checked, $mismatches mismatches, $failed processes failed, seeds from $seed"
((failed == 0 && graphs > 0))
