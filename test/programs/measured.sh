#!/usr/bin/env bash
# `calibrate` and `optimize` on a backend: a machine is measured and read, operators are measured once, graphs run.
# usage: measured.sh OPTIMIZE CALIBRATE MODEL_DIR SCRATCH_DIR
set -u
optimize=$1 calibrate=$2 models=$3 scratch=$4
rm -rf "$scratch" && mkdir -p "$scratch"
export XDG_CACHE_HOME=$scratch/cache
model=("$models/resnet_small.onnx" --dim batch=1 --max-expansions 3 --cost measured:reference)
passed=0 failed=0

# check WHAT COMMAND...: the command must succeed.
check() {
  local what=$1
  shift
  if "$@"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $what"
    cat "$scratch/stderr"
  fi
}
silent() { "$@" >"$scratch/stdout" 2>"$scratch/stderr"; }
# json FILE EXPRESSION: of python, about the object x.
json() { /usr/bin/python3 -c 'import json, sys; x = json.load(open(sys.argv[1])); sys.exit(not eval("(" + sys.argv[2] + ")"))' "$@"; }
complains() { # complains CODE PATTERN COMMAND...: exit code, and the one line of complaint
  local code=$1 pattern=$2
  shift 2
  silent "$@"
  [ $? = "$code" ] && [ "$(wc -l <"$scratch/stderr")" = 1 ] && grep -qE -- "$pattern" "$scratch/stderr"
}
warns() { # warns PATTERN COMMAND...: success, and one line of warning
  complains 0 "$@"
}

check 'a first run measures, and runs' silent "$optimize" "${model[@]}" --run reference --json "$scratch/1.json"
check 'the run is in its JSON' json "$scratch/1.json" \
  'x["run"]["backend"] == "reference" and x["run"]["original_s"] > 0 and x["run"]["optimized_s"] > 0
   and abs(x["run"]["ratio"] - x["run"]["original_s"] / x["run"]["optimized_s"]) < 1e-9
   and 0 <= x["run"]["max_rel_error"] < 1e-4 and x["run"]["predicted_original_s"] > 0'
check 'it measured' json "$scratch/1.json" 'x["measuring"]["measured"] > 0 and x["measuring"]["stored"] == 0'
check 'a second run does not complain' silent "$optimize" "${model[@]}" --run reference --json "$scratch/2.json"
check 'a second run measures nothing' json "$scratch/2.json" 'x["measuring"]["measured"] == 0 and x["measuring"]["stored"] > 0'
check 'a second run finds the same cost' \
  json "$scratch/2.json" "x['cost_after_s'] == json.load(open('$scratch/1.json'))['cost_after_s']"
check 'timings lie in the cache folder' test "$(find "$scratch/cache/unity/timings" -name '*.txt' | wc -l)" = 1

timings=$(find "$scratch/cache/unity/timings" -name '*.txt')
sed '2s/.*/device another machine/' "$timings" >"$scratch/other.txt"
check 'timings of another machine are told' warns 'another machine.*not used' "$optimize" "${model[@]}" --timings "$scratch/other.txt"
check 'and replaced' silent "$optimize" "${model[@]}" --timings "$scratch/other.txt" --json "$scratch/3.json"
check 'so that a second run measures nothing' json "$scratch/3.json" 'x["measuring"]["measured"] == 0'
head -c 1000 "$timings" >"$scratch/cut.txt"
cp "$scratch/cut.txt" "$scratch/cut_before.txt"
check 'corrupt timings are told with their line' warns 'cut.txt, line' "$optimize" "${model[@]}" --timings "$scratch/cut.txt"
check 'and left as they are' cmp -s "$scratch/cut.txt" "$scratch/cut_before.txt"
cp "$timings" "$scratch/read_only.txt" && sed -i '3,$d' "$scratch/read_only.txt" && chmod a-w "$scratch/read_only.txt"
check 'read-only timings are told once' warns 'read-only' "$optimize" "${model[@]}" --timings "$scratch/read_only.txt"
check 'without timings nothing is kept' silent "$optimize" "${model[@]}" --timings none --json "$scratch/4.json"
check 'and all is measured' json "$scratch/4.json" 'x["measuring"]["measured"] > 0'

check 'a machine is measured' silent "$calibrate" --backend reference --stream-bytes 65536 --ranks 2 --largest-exchange 16384 \
  --out "$scratch/machine.json"
check 'all of it' json "$scratch/machine.json" \
  'x["format"] == "unity machine" and {p["operator"] for p in x["devices"][0]["peaks"]} == {"matmul", "conv2d"}
   and x["devices"][0]["bytes_per_second"] > 0 and len(x["links"][0]["costs"]) == 6'
check 'and priced with' silent "$optimize" zoo:nasrnn --max-expansions 3 --cost "analytic:$scratch/machine.json" --json "$scratch/5.json"
check 'to another cost than a preset' json "$scratch/5.json" 'x["cost_before_s"] > 0'

sed 's/"flops_per_second": [0-9.e+]*/"flops_per_second": -1/' "$scratch/machine.json" >"$scratch/negative.json"
check 'a machine that is wrong is refused' complains 1 'negative.json: machine.devices\[0\].peaks\[0\].flops_per_second: is -1' \
  "$optimize" zoo:nasrnn --cost "analytic:$scratch/negative.json"
check 'a backend that is not there is refused' complains 1 "no backend 'abacus'; expected .*reference" "$optimize" zoo:nasrnn --cost measured:abacus
if ! nvidia-smi >/dev/null 2>&1; then
  check 'a GPU that is not there is missed' complains 1 "no backend 'cuda'|cuda backend: .*; expected" "$optimize" zoo:nasrnn --run cuda
fi
check 'for runs too' complains 1 "no backend 'abacus'" "$optimize" zoo:nasrnn --run abacus
check 'and for calibration' complains 1 "no backend 'abacus'" "$calibrate" --backend abacus --out "$scratch/x.json"
check 'a place that cannot be written is told' complains 1 'cannot be created' "$calibrate" --backend reference --stream-bytes 4096 \
  --out "$scratch/read_only.txt/m.json"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
