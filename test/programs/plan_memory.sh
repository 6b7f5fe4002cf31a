#!/usr/bin/env bash
# `plan_memory`: its results, files and error messages.
# usage: plan_memory.sh PLAN_MEMORY SCRATCH_DIR
set -u
program=$1 scratch=$2
rm -rf "$scratch" && mkdir -p "$scratch"
. "$(dirname "$0")/../support/checks.sh"
cd "$scratch" || exit 1

check "a plan is found" silent "$program" 'zoo:lenet?batch=32' --limit 2MB --json lenet.json
check "... the best, and no worse than rules" json lenet.json 'x["method"] == "dynamic_program" and
  x["loaded_bytes"]["dp"] == x["bound_bytes"] and x["held_bytes"] <= x["limit_bytes"] == 2000000 and
  all(v >= x["loaded_bytes"]["dp"] >= x["input_bytes"] for v in x["loaded_bytes"].values())'
check "... which loads what it reads and does not keep" json lenet.json 'all(set(l).isdisjoint(before)
  for l, before in zip(x["loads"], [[]] + x["cached"])) and len(x["order"]) == len(x["cached"]) == len(x["stores"])'
check "units of 2^20 bytes" silent "$program" 'zoo:lenet?batch=32' --limit 2MiB --json mib.json
check "... are larger" json mib.json 'x["limit_bytes"] == 2097152'
# 1.001 times 1e6 is less than 1001000 in floating point.
check "a limit that is just enough" silent "$program" gcn:62000:2248:1:1 --limit 1.001MB --json least.json
check "... to the byte" json least.json 'x["least_bytes"] == x["limit_bytes"] == 1001000'
check "a graph beyond dynamic programming" silent "$program" zoo:alexnet --limit 900MB --json alexnet.json
check "... has a bound" json alexnet.json 'x["method"] == "bounded_search" and
  0.99 * x["loaded_bytes"]["dp"] <= x["bound_bytes"] <= x["loaded_bytes"]["dp"] < x["loaded_bytes"]["lru"]'

complain() { complains 1 "$1" "$program" "${@:2}"; }
check "too little memory" complain \
  '^plan_memory: memory plan: a capacity of 2000000 bytes; expected 3612672 bytes at least, which operator' \
  zoo:lenet --limit 2MB
check "no size" complain "^plan_memory: --limit: 'much'; expected a number" zoo:lenet --limit much
check "no memory" complain "^plan_memory: --limit: '0'; expected a byte at least" zoo:lenet --limit 0
check "no such model" complain 'zoo: model "none"' zoo:none --limit 2MB
check "nowhere to write" complain 'nowhere' zoo:lenet --limit 4MB --json nowhere/result.json
check "no limit" complains 2 'limit is required' "$program" zoo:lenet
check "no width" complains 2 'width: .*expected a whole number from 1' "$program" zoo:lenet --limit 4MB --width 0
finish
