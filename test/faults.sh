#!/usr/bin/env bash
# faults.sh [--points N] [--seed S] [--build DIR] [--partly]: programs that are killed, or are given too
# little memory or disk.
#
#   N kills (200) at random moments of a search, a generation of rules and a training run, each of which is then
#     resumed: the result is that of an uninterrupted run.
#   N / 4 sizes of memory (limits on the address space) and N / 4 of disk (a small tmpfs), rounded up to equal numbers
#     for each of these programs and a search of strategies: the right result, or one line and exit code 1, with earlier
#     files intact and no partly written file; and the run can be resumed from the files that were kept.
#
# DIR: the folder of the programs (by default build/test, which is built then). The last line counts; the exit code is 0
# if all checks held. Checks that cannot run, because a program is missing or no disk can be mounted, are failures, too,
# unless --partly is given.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
points=200 seed=$((RANDOM * 32768 + RANDOM)) build= partly=0 skipped=0
while (($# > 0)); do
  case $1 in
    --points) points=${2:?--points needs a number} && shift 2 ;;
    --seed) seed=${2:?--seed needs a number} && shift 2 ;;
    --build) build=${2:?--build needs a folder} && shift 2 ;;
    --partly) partly=1 && shift ;;
    *) echo "usage: faults.sh [--points N] [--seed S] [--build DIR] [--partly]" >&2 && exit 2 ;;
  esac
done
if [ -z "$build" ]; then
  build=$root/build/test
  cmake -S "$root" --preset test >/dev/null &&
    cmake --build "$build" --target optimize generate_rules train parallelize test_make_plan || exit 1
fi
build=$(cd "$build" && pwd) || exit 2
scratch=$(mktemp -d) || exit 1
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM  # processes in the background ignore the first
# shellcheck source=faults/programs.sh
. "$root/test/faults/programs.sh"
# shellcheck source=faults/outcomes.sh
. "$root/test/faults/outcomes.sh"

skip() { echo "skipped: $*" && skipped=$((skipped + 1)); }

echo "faults: seed $seed"
RANDOM=$seed
runs=()  # kinds of runs whose programs are there
for kind in search generation training strategies; do
  if ! has_program "$kind"; then
    skip "$kind, $(program_of "$kind") is not in $build/bin"
  elif prepare "$kind"; then
    runs+=("$kind")
  else
    fail "$kind: cannot be prepared: $(head -3 "$scratch/stderr")"
  fi
done
((${#runs[@]} > 0)) || { echo "skipped: no programs in $build/bin" && exit 77; }

kills=0 memory=0 disk=0

# Some are killed again after they went on.
killed() { # killed KIND
  local kind=$1 dir=$scratch/$1/run again=$((1 + RANDOM % 3)) moment process
  ((kills < points)) || return
  begin "$kind"
  for ((; again > 0 && kills < points; --again)); do
    draw 0 "$(cat "$scratch/$kind/milliseconds")"
    printf -v moment '%d.%03d' $((drawn / 1000)) $((drawn % 1000))
    set_command "$kind" "$dir"
    "${command[@]}" >/dev/null 2>"$scratch/stderr" &
    process=$!
    sleep "$moment"
    { kill -9 $process && wait $process; } 2>/dev/null
    [ $? = 137 ] || break  # it was done
    kills=$((kills + 1))
    each_old_or_new "$kind" "$kind, killed after $moment s"
  done
  goes_on "$kind" "$kind, killed after $moment s"
}
# Sizes from what it takes to start to what suffices for all, both included.
size_of() { # size_of LEAST MOST NUMBER COUNT
  draw 0 $((($2 - $1) / $4 / 2 + 1))
  drawn=$(($1 + ($2 - $1) * $3 / ($4 > 1 ? $4 - 1 : 1) - drawn))
  ((drawn >= $1)) || drawn=$1
}
starved() { # starved KIND NUMBER COUNT
  local code=0
  size_of "$(cat "$scratch/$1/least_kb")" "$(cat "$scratch/$1/most_kb")" "$2" "$3"
  begin "$1"
  set_command "$1" "$scratch/$1/run"
  (ulimit -v "$drawn" && exec timeout 120 "${command[@]}") >/dev/null 2>"$scratch/stderr" || code=$?
  memory=$((memory + 1))
  ends_well "$1" "$code" "$1, $drawn KB of memory"
}
crowded() { # crowded KIND NUMBER COUNT
  local code=0 dir=$scratch/$1/run
  size_of "$(($(kilobytes "$scratch/$1/before") + 8))" "$(($(kilobytes "$scratch/$1/whole") * 2 + 64))" "$2" "$3"
  begin "$1"
  mkdir -p "$scratch/after"
  set_command "$1" "$dir"
  unshare $namespaces bash -c '
    before=$1 run=$2 after=$3 size=$4
    mount -t tmpfs -o size="$size"k tmpfs "$run" && cp -a "$before/." "$run/" || exit 99
    timeout 120 "${@:5}"
    code=$?
    cp -a "$run/." "$after/"
    exit $code' - "$scratch/$1/before" "$dir" "$scratch/after" "$drawn" "${command[@]}" \
    >/dev/null 2>"$scratch/stderr" || code=$?
  rm -rf "$dir" && mv "$scratch/after" "$dir"
  disk=$((disk + 1))
  ends_well "$1" "$code" "$1, $drawn KB of disk"
}

while ((kills < points && failures < 20)); do
  for kind in "${runs[@]}"; do
    [ "$kind" = strategies ] || killed "$kind"
  done
  [ "${runs[*]}" != strategies ] || break
done
each=$(((points / 4 + ${#runs[@]} - 1) / ${#runs[@]}))
for ((i = 0; i < each; ++i)); do
  for kind in "${runs[@]}"; do starved "$kind" $i $each; done
done
namespaces=
mkdir -p "$scratch/mounted"
for how in -rm -m; do
  if unshare $how mount -t tmpfs tmpfs "$scratch/mounted" 2>/dev/null; then namespaces=$how && break; fi
done
if [ -z "$namespaces" ]; then
  skip "no small disk can be mounted here (unshare -rm mount -t tmpfs)"
else
  for ((i = 0; i < each; ++i)); do
    for kind in "${runs[@]}"; do crowded "$kind" $i $each; done
  done
fi
tried="$kills kills, $memory sizes of memory, $disk of disk"
echo "$tried: $refusals refusals, $skipped skipped, $failures failed, seed $seed"
((failures == 0 && (partly || skipped == 0)))
