#!/usr/bin/env bash
# `calibrate --backend cpu --out m.json`, a user's first command: measures everything, with exchanges between ranks.
# usage: calibrate.sh PROGRAM SCRATCH_DIR
# Exit codes: 77 with a reason if this build has no such backend.
set -u
program=$1 scratch=$2
rm -rf "$scratch" && mkdir -p "$scratch/folder"
# shellcheck source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"
cd "$scratch" || exit 1

silent "$program" --backend cpu --out m.json
code=$?
if grep -q 'this build has no backend' stderr; then
  echo "skipped: $(cat stderr)" && exit 77
fi
check 'it measures, in silence but for the table' test "$code$(cat stderr)" = 0
check 'the device, its memory and its peaks' json m.json \
  'x["devices"][0]["kind"] == "cpu" and x["devices"][0]["memory_bytes"] > 2**26
   and x["devices"][0]["bytes_per_second"] > 0 and [(p["operator"], p["element"]) for p in x["devices"][0]["peaks"]]
   == [("matmul", "float32"), ("conv2d", "float32")]'
check 'every exchange between 2 to 4 ranks' json m.json \
  'len(x["links"]) == 1 and 2 <= x["links"][0]["ranks"] <= 4 and x["links"][0]["name"] == "local"
   and set(x["links"][0]["costs"])
   == {"message", "all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all"}'
check 'exchanges of one rank are refused' complains 1 'largest-exchange: given with --ranks 1' \
  "$program" --backend reference --ranks 1 --largest-exchange 2048 --out one.json
# Measuring this would take minutes.
long=(timeout 5 "$program" --backend reference --stream-bytes 4294967296)
check 'a place that cannot be written is told at once' complains 1 'nowhere/m.json: cannot be created' \
  "${long[@]}" --out nowhere/m.json
check 'and so is a folder' complains 1 'folder: is a directory; expected a name for a file' "${long[@]}" --out folder
if (($(getconf _PHYS_PAGES) * $(getconf PAGESIZE) < 1 << 39)); then
  check 'exchanges that do not fit in memory are refused before they are timed' complains 1 \
    '--largest-exchange: twice 4294967296 bytes on each of 64 ranks' timeout 5 "$program" --backend reference \
    --ranks 64 --largest-exchange 4294967296 --out large.json
fi
check 'nothing is left there' test -z "$(find . -name '*partial*')"
finish
