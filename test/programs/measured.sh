#!/usr/bin/env bash
# `calibrate` and `optimize` on a backend: a machine is measured and read, operators are timed once, graphs run.
# usage: measured.sh OPTIMIZE CALIBRATE MODEL_DIR SCRATCH_DIR
set -u
optimize=$1 calibrate=$2 models=$3 scratch=$4
rm -rf "$scratch" && mkdir -p "$scratch"
export XDG_CACHE_HOME=$scratch/cache
# shellcheck source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"
small=("$models/resnet_small.onnx" --dim batch=1 --max-expansions 3)
model=("${small[@]}" --cost measured:reference)

check 'a first run measures, and runs' silent "$optimize" "${model[@]}" --run reference --json "$scratch/1.json"
check 'the run is in its JSON' json "$scratch/1.json" \
  'x["run"]["backend"] == "reference" and x["run"]["original_s"] > 0 and x["run"]["optimized_s"] > 0
   and abs(x["run"]["ratio"] - x["run"]["original_s"] / x["run"]["optimized_s"]) < 1e-9
   and 0 <= x["run"]["max_rel_error"] < 1e-4 and x["run"]["predicted_original_s"] > 0'
check 'it measured' json "$scratch/1.json" 'x["measuring"]["measured"] > 0 and x["measuring"]["known"] == 0'
check 'a second run does not complain' silent "$optimize" "${model[@]}" --run reference --json "$scratch/2.json"
check 'a second run measures nothing' json "$scratch/2.json" \
  'x["measuring"]["measured"] == 0 and x["measuring"]["known"] > 0'
check 'a second run finds the same cost' \
  json "$scratch/2.json" "x['cost_after_s'] == json.load(open('$scratch/1.json'))['cost_after_s']"
check 'timings lie in the cache folder' test "$(find "$scratch/cache/unity/timings" -name '*.txt' | wc -l)" = 1

timings=$(find "$scratch/cache/unity/timings" -name '*.txt')
sed '2s/.*/device another machine/' "$timings" >"$scratch/other.txt"
check 'timings of another machine are told' warns 'another machine.*not used' \
  "$optimize" "${model[@]}" --timings "$scratch/other.txt"
check 'and replaced' silent "$optimize" "${model[@]}" --timings "$scratch/other.txt" --json "$scratch/3.json"
check 'so that a second run measures nothing' json "$scratch/3.json" 'x["measuring"]["measured"] == 0'
{ head -n 4 "$timings" && printf '123 4'; } >"$scratch/cut.txt"
cp "$scratch/cut.txt" "$scratch/cut_before.txt"
check 'corrupt timings are told with their line' warns 'cut.txt, line' \
  "$optimize" "${model[@]}" --timings "$scratch/cut.txt"
check 'and left as they are' cmp -s "$scratch/cut.txt" "$scratch/cut_before.txt"
cp "$timings" "$scratch/read_only.txt" && sed -i '3,$d' "$scratch/read_only.txt" && chmod a-w "$scratch/read_only.txt"
check 'read-only timings are told once' warns 'read-only' "$optimize" "${model[@]}" --timings "$scratch/read_only.txt"
mv "$timings" "$(dirname "$timings")/0123456789abcdef.txt"
check 'timings of other versions beside them are told, and not used' \
  warns '1 other device\(s\) or version\(s\) are not used' "$optimize" "${model[@]}" --json "$scratch/7.json"
check 'as what was measured shows' json "$scratch/7.json" \
  'x["measuring"]["measured"] > 0 and x["measuring"]["known"] == 0'
check 'without timings nothing is kept' silent "$optimize" "${model[@]}" --timings none --json "$scratch/4.json"
check 'and all is measured' json "$scratch/4.json" 'x["measuring"]["measured"] > 0'

check 'a machine is measured' silent "$calibrate" --backend reference --stream-bytes 65536 --ranks 2 \
  --largest-exchange 16384 --out "$scratch/machine.json"
check 'all of it' json "$scratch/machine.json" \
  'x["format"] == "unity machine" and {p["operator"] for p in x["devices"][0]["peaks"]} == {"matmul", "conv2d"}
   and x["devices"][0]["bytes_per_second"] > 0 and len(x["links"][0]["costs"]) == 6'
check 'and priced with' silent \
  "$optimize" zoo:nasrnn --max-expansions 3 --cost "analytic:$scratch/machine.json" --json "$scratch/5.json"
silent "$optimize" zoo:nasrnn --max-expansions 3 --cost analytic:v100 --json "$scratch/6.json"
check 'to another cost than a preset' json "$scratch/5.json" \
  "0 < x['cost_before_s'] != json.load(open('$scratch/6.json'))['cost_before_s']"
check 'kernels of a device price, too' \
  silent "$optimize" zoo:nasrnn --max-expansions 3 --cost kernels:v100 --json "$scratch/kernels.json"
check 'to a cost of their own, which the search reduces' json "$scratch/kernels.json" \
  "0 < x['cost_after_s'] < x['cost_before_s'] != json.load(open('$scratch/6.json'))['cost_before_s']
   and x['cost'] == 'kernels:v100'"
check 'also those of a device that was measured' \
  silent "$optimize" zoo:nasrnn --max-expansions 3 --cost "kernels:$scratch/machine.json"

sed 's/"flops_per_second": [0-9.e+]*/"flops_per_second": -1/' "$scratch/machine.json" >"$scratch/negative.json"
check 'a machine that is wrong is refused' \
  complains 1 'negative.json: machine.devices\[0\].peaks\[0\].flops_per_second: is -1' \
  "$optimize" zoo:nasrnn --cost "analytic:$scratch/negative.json"
check 'a backend that is not there is refused' complains 1 "no backend 'abacus'; expected .*reference" \
  "$optimize" zoo:nasrnn --cost measured:abacus
if ! nvidia-smi >/dev/null 2>&1; then
  check 'a GPU that is not there is missed' complains 1 "no backend 'cuda'|cuda backend: .*; expected" \
    "$optimize" zoo:nasrnn --run cuda
fi
check 'for runs too' complains 1 "no backend 'abacus'" "$optimize" zoo:nasrnn --run abacus
check 'and for calibration' complains 1 "no backend 'abacus'" "$calibrate" --backend abacus --out "$scratch/x.json"
check 'a place that cannot be written is told' complains 1 'cannot be created' \
  "$calibrate" --backend reference --stream-bytes 4096 --out "$scratch/read_only.txt/m.json"

measured=("$optimize" "${model[@]}")
check 'training is not measured' complains 1 '--mode: training.*expected inference' "${measured[@]}" --mode training
check 'nor run' complains 1 '--mode: training.*expected inference' \
  "$optimize" zoo:nasrnn --run reference --mode training
check 'one thread prices, as others would disturb it' complains 1 '--threads: 2 .*expected 1' \
  "${measured[@]}" --threads 2
check 'a file for times needs times' complains 1 '--timings: .*expected --cost measured' \
  "$optimize" zoo:nasrnn --timings "$scratch/x.txt"
check 'threads need a backend that has them' complains 1 '--backend-threads: 2 for a backend that takes none' \
  "${measured[@]}" --backend-threads 2

if "$optimize" --help | grep -q 'BACKEND (cpu'; then
  check 'the cpu backend is measured, and runs' silent \
    "$optimize" "${small[@]}" --cost measured:cpu --run cpu --json "$scratch/8.json"
  check 'with equal outputs' json "$scratch/8.json" \
    'x["run"]["backend"] == "cpu" and x["run"]["max_rel_error"] < 1e-4 and x["run"]["original_s"] > 0
     and x["measuring"]["measured"] > 0 and x["measuring"]["device"].startswith("cpu: ")
     and "oneDNN" in x["measuring"]["device"]'
fi

finish
