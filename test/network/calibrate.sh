#!/usr/bin/env bash
# `calibrate` under mpirun: the ranks of the job are timed, and only rank 0 prints and writes.
# usage: calibrate.sh MPIRUN PROGRAM SCRATCH_DIR
set -u
mpirun=(timeout --kill-after 10 300 "$1" --oversubscribe --allow-run-as-root) program=$2 scratch=$3
rm -rf "$scratch" && mkdir -p "$scratch"
# shellcheck source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"
cd "$scratch" || exit 1
device=(--backend reference --stream-bytes 65536)
quick=("${device[@]}" --largest-exchange 65536)

check 'three ranks measure' silent "${mpirun[@]}" -np 3 "$program" "${quick[@]}" --out m.json
check 'every exchange between them' json m.json \
  'len(x["links"]) == 1 and x["links"][0]["ranks"] == 3 and x["links"][0]["name"] == "mpi"
   and set(x["links"][0]["costs"])
   == {"message", "all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all"}'
check 'and the device, once' json m.json 'len(x["devices"]) == 1 and len(x["devices"][0]["peaks"]) == 2'
check 'one rank speaks' test "$(grep -c '^mpi, 3 ranks$' stdout)" = 1
check 'the others are silent' test ! -s stderr
check 'one file is left' test "$(find . -name 'm.json*' | wc -l)" = 1
check 'a rank alone measures its device' silent "${mpirun[@]}" -np 1 "$program" "${quick[@]}" --out alone.json
check 'and no link' json alone.json 'x["links"] == [] and len(x["devices"]) == 1'

refuses() { # refuses PATTERN ARGUMENT...: it fails, and says why in a line among mpirun's own
  local pattern=$1
  shift
  ! silent "${mpirun[@]}" "$@" && grep -qE "^$pattern\$" stderr
}
check 'a place that cannot be written is told' refuses 'nowhere/m.json: cannot be created .*' \
  -np 2 "$program" "${quick[@]}" --out nowhere/m.json
check 'a number of threads is refused' refuses '--ranks: 2; expected none beside mpirun, whose ranks are timed' \
  -np 2 "$program" "${quick[@]}" --ranks 2 --out x.json
check 'ranks that are to measure other sizes do not begin' refuses 'the program: rank 1 differs from rank 0; .*' \
  -np 1 "$program" "${quick[@]}" --out x.json : -np 1 "$program" "${device[@]}" --largest-exchange 4096 --out x.json
check 'nor write' test ! -e x.json
finish
