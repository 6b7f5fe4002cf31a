#!/usr/bin/env bash
# `fit_kernels`: its results for devices that were left out or not seen, and its messages for unreadable files.
# usage: fit_kernels.sh PROGRAM SOURCE_DIR SCRATCH_DIR
set -u
program=$1 source=$2 scratch=$3
rm -rf "$scratch" && mkdir -p "$scratch"
# shellcheck source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"
cd "$scratch" || exit 1

# Sums at 100 and at 200 GB/s and 10 us, rows of softmax at half of that.
mkdir data
for op in add softmax; do
  echo device,latency_ms,grid,block,kernel,b,h
  for b in {1..40}; do
    echo "T4,$b,$op 1e-7"
    echo "V100,$b,$op 5e-8"
  done | awk -F '[, ]' '{ n = 50000 * $2; bytes = $3 == "add" ? 12 : 16
                           print $1 "," 0.01 + n * bytes * $4 / 10 ",1,1,a," $2 * 50 ",1000" }'
done >all
awk '/^device/ { file = ++n == 1 ? "data/add.csv" : "data/softmax.csv" } { print >file }' all
gzip data/softmax.csv
check 'kernels are fitted' silent "$program" data --unseen "$source/test/data/kernels_h100.csv.gz" \
  --json f.json --out c.json
check 'errors by operator and device' json f.json \
  'set(x["mape"]) == {"add", "softmax"} and all(set(x["mape"][o]) == {"T4", "V100"} for o in x["mape"])
   and all(x["mape"]["add"][d] < 0.1 and x["samples"]["add"][d] == 40 for d in ("T4", "V100"))
   and set(x["unseen"]["bmm"]) == {"H100-80GB-HBM3"} and x["unseen"]["bmm"]["H100-80GB-HBM3"]["mape"] < 0.15'
check 'what one device alone was measured for is fitted to it' json f.json \
  'all(x["fitted_to_itself"][o]["H100-80GB-HBM3"]["mape"] < 0.13 for o in ("attention_bfloat16", "attention_gradient"))
   and "linear_bfloat16" not in x["unseen"]'
check 'coefficients' json c.json \
  'set(x["coefficients"]) == {"elementwise", "softmax", "layer_norm_gradient", "tensor_product", "attention",
                              "attention_gradient"}'
check 'intervals of kernels that were not fitted to' json c.json \
  'set(x["ratio_intervals"]) == set(x["coefficients"])
   and all(0.5 < low <= 1 <= high < 2 and low < high for low, high in x["ratio_intervals"].values())
   and x["ratio_intervals"]["elementwise"][0] > 0.9 and x["ratio_intervals"]["elementwise"][1] < 1.1'
check 'devices' json c.json \
  'sorted(d["id"] for d in x["devices"]) == ["h100", "t4", "v100"] and 0.5 < x["shares"]["bfloat16"] < 1
   and abs(x["devices"][0]["bytes_per_second"] / 1e11 - 1) < 0.05'
check 'no folder' complains 1 '^fit_kernels: none: no folder; expected one of .csv or .csv.gz files$' "$program" none
mkdir empty
check 'nothing in it' complains 1 '^fit_kernels: empty: no times of kernels; expected ' "$program" empty
mkdir odd
sed 's/T4/abacus/' data/add.csv >odd/add.csv
check 'an unknown device' complains 1 '^fit_kernels: abacus: a device whose units are not known; expected P4, ' \
  "$program" odd
echo T4,1 >>odd/add.csv
check 'a short line' complains 1 'add.csv:82: T4,1; expected 7 fields$' "$program" odd
mkdir noisy
awk -F, -v OFS=, 'NR > 1 { $1 = "T4"; $2 = 100 / $6 } 1' data/add.csv >noisy/add.csv
check 'sums without a bandwidth' complains 1 \
  '^fit_kernels: T4: sums that do not take longer where they are larger; expected ' "$program" noisy
check 'help' silent "$program" --help
finish
