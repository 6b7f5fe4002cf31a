#!/usr/bin/env bash
# A search that is stopped and resumed ends like an uninterrupted one, for any number of threads.
# usage: resume.sh PROGRAM SCRATCH_DIR
set -eu
program=$1 scratch=$2
rm -rf "$scratch" && mkdir -p "$scratch"

run() {
  local name=$1
  shift
  "$program" zoo:nasrnn "$@" --budget 10m --json "$scratch/$name.json" >/dev/null
  # What time and memory do not touch.
  grep -vE '"(seconds|cpu_s|candidates_per_s|seconds_to_best|peak_rss_bytes)"' "$scratch/$name.json" \
    >"$scratch/$name.txt"
}

run whole --max-expansions 120
run half --max-expansions 60 --checkpoint "$scratch/checkpoint"
run resumed --max-expansions 120 --resume "$scratch/checkpoint"
run two --max-expansions 120 --threads 2
run four --max-expansions 120 --threads 4
cmp "$scratch/whole.txt" "$scratch/resumed.txt"
cmp "$scratch/whole.txt" "$scratch/two.txt"
cmp "$scratch/whole.txt" "$scratch/four.txt"
! cmp -s "$scratch/whole.txt" "$scratch/half.txt"
echo "5 passed, 0 failed"
