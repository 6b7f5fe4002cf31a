#!/usr/bin/env bash
# `calibrate --collectives times.csv --out m.json`: given times are fitted, errors are printed as JSON.
# usage: calibrate_collectives.sh PROGRAM SCRATCH_DIR
set -u
program=$1 scratch=$2
rm -rf "$scratch" && mkdir -p "$scratch"
# shellcheck source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"
cd "$scratch" || exit 1

# 0.05 ms and 0.01 ms a MB among 2, twice that among 8; one size does not divide and takes twice its time.
{
  echo collective,gpus,size_mb,time_ms
  for gpus in 2 8; do
    for size in {1..40}; do
      echo "$gpus $size"
    done
  done | awk '{ f = $1 == 8 ? 2 : 1; print "all_reduce," $1 "," $2 "," f * (0.05 + 0.01 * $2)
                if ($2 == 7) print "all_reduce," $1 "," $2 "," 2 * f * (0.05 + 0.01 * $2) }'
} >times.csv
check 'times are fitted' silent "$program" --collectives times.csv --out m.json
cp stdout errors.json
check 'errors by collective and group' json errors.json \
  'set(x) == {"mape", "mape_all", "mape_group", "samples", "padded"}
   and all(x["mape"]["all_reduce"][g] < 1e-6 for g in ("2", "8"))
   and all(x["mape_group"]["all_reduce"][g] > 0.4 for g in ("2", "8"))
   and x["samples"]["all_reduce"] == {"2": 41, "8": 41} and x["padded"]["all_reduce"] == {"2": 1, "8": 1}'
check 'a link per group' json m.json \
  '[l["ranks"] for l in x["links"]] == [2, 8] and x["name"] == "times"
   and abs(x["links"][0]["costs"]["all_reduce"][0]["alpha_s"] - 5e-5) < 1e-9'
echo 'all_reduce,2,x,1' >>times.csv
check 'a line that cannot be read is named' complains 1 '^calibrate: times.csv:84: x; expected 0 to 1000000 MB' \
  "$program" --collectives times.csv --out bad.json
check 'a missing file is named' complains 1 'none.csv' "$program" --collectives none.csv --out bad.json
check 'it measures nothing beside' \
  complains 2 '--ranks excludes --collectives' "$program" --collectives times.csv --ranks 2 --out bad.json
check 'nothing is left' test ! -e bad.json
finish
