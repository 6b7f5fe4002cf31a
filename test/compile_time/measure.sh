#!/usr/bin/env bash
# measure.sh LIMIT HEADER COMPILER [FLAG...]: fails when including HEADER costs LIMIT CPU seconds or more.
# The least of five runs: what other programs do to the machine's caches only ever adds.
set -euo pipefail

limit=$1 header=$2
shift 2
TIMEFORMAT='%U %S'
least=
for _ in 1 2 3 4 5; do
  spent=$({ time "$@" -std=c++20 -O0 -fsyntax-only -x c++ - <<< "#include <$header>"; } 2>&1) || {
    echo "$spent"
    exit 1
  }
  spent=$(awk '{ print $1 + $2 }' <<< "$spent")
  least=$(awk -v a="${least:-$spent}" -v b="$spent" 'BEGIN { print a < b ? a : b }')
done
echo "#include <$header>: $least CPU seconds, limit $limit"
awk -v spent="$least" -v limit="$limit" 'BEGIN { exit !(spent < limit) }'
