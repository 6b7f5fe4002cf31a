#!/usr/bin/env bash
# measure.sh LIMIT HEADER COMPILER [FLAG...]: fails if including HEADER takes LIMIT CPU seconds or more.
# Seconds are scaled to a machine that compiles the whole standard library in 0.8: both are measured in turns, since the
# speed of a machine can change twofold with the load of its host. The least of three runs counts, as load only adds.
set -euo pipefail

limit=$1 header=$2
shift 2
TIMEFORMAT='%U %S'

# cpu_seconds HEADER COMPILER [FLAG...]
cpu_seconds() {
  local included=$1 spent
  shift
  spent=$({ time "$@" -std=c++20 -O0 -fsyntax-only -x c++ - <<< "#include <$included>"; } 2>&1) || {
    echo "$spent" >&2
    return 1
  }
  awk '{ print $1 + $2 }' <<< "$spent"
}

for _ in 1 2 3; do
  cpu_seconds bits/stdc++.h "$@"
  cpu_seconds "$header" "$@"
done | awk -v header="$header" -v limit="$limit" '
  NR % 2 == 1 && (NR == 1 || $1 < library) { library = $1 }
  NR % 2 == 0 && (NR == 2 || $1 < included) { included = $1 }
  END {
    if (NR != 6) exit 1
    scaled = included * 0.8 / library
    printf "#include <%s>: %.2f CPU seconds here, where the standard library takes %.2f; " \
           "%.2f where it takes 0.8, limit %s\n",
           header, included, library, scaled, limit
    exit !(scaled < limit)
  }'
