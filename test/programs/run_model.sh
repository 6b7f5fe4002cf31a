#!/usr/bin/env bash
# `run_model`: outputs of a model are saved, and compared with saved outputs and with those of another model.
# usage: run_model.sh RUN_MODEL OPTIMIZE MODEL_DIR SCRATCH_DIR
set -u
run_model=$1 optimize=$2 models=$3 scratch=$4
rm -rf "$scratch" && mkdir -p "$scratch"
# shellcheck source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"
small=("$models/resnet_small.onnx" --dim batch=1)
run=("$run_model" "${small[@]}" --backend reference)
check 'a model runs, and what it reads and computes is saved' silent \
  "${run[@]}" --seed 3 --save "$scratch/data" --json "$scratch/10.json"
check 'in a file for each' test "$(ls "$scratch/data")" = $'input_0.pb\noutput_0.pb'
check 'its time is in the JSON' json "$scratch/10.json" \
  'x["seconds"] > 0 and x["runs"] >= 5 and "max_rel_error" not in x'
"${run[@]}" --json /dev/stdout >"$scratch/both"
check 'JSON on standard output leaves the rest there' grep -q ' four of five of ' "$scratch/both"
check '... and is there' grep -q '"seconds": ' "$scratch/both"
check 'the same inputs give the same outputs' silent \
  "${run[@]}" --data "$scratch/data" --tolerance 1e-30 --json "$scratch/11.json"
check 'without any error' json "$scratch/11.json" 'x["max_rel_error"] == 0'
silent "${run[@]}" --seed 4 --save "$scratch/other_data"
cp "$scratch/other_data/input_0.pb" "$scratch/data/input_0.pb"
check 'other inputs give others' complains 1 'data: outputs differ by .*expected a relative error of at most' \
  "${run[@]}" --data "$scratch/data"
silent "$optimize" "${small[@]}" --max-expansions 20 --out "$scratch/optimized"
check 'a model and its optimized form agree' silent \
  "${run[@]}" --against "$scratch/optimized/optimized.onnx" --json "$scratch/12.json"
check 'and are timed beside each other' json "$scratch/12.json" \
  'x["against"]["seconds"] > 0 and 0 <= x["against"]["max_rel_error"] < 1e-4'
bert=$models/bert_small.onnx
check 'sizes that a file leaves open stay so' silent \
  "$optimize" "$bert" --max-expansions 20 --out "$scratch/open" --json "$scratch/13.json"
check 'and are named' json "$scratch/13.json" \
  '[a["name"] for a in x["dynamic_axes"]] == ["batch", "sequence"] and "held_size" not in x and x["signature_kept"]'
for size in 1 3 9; do
  sizes=(batch=$((size + 1)) sequence=$size)
  check "at ${sizes[*]} both agree" silent "$run_model" "$bert" --dim "${sizes[0]}" --dim "${sizes[1]}" \
    --backend reference --against "$scratch/open/optimized.onnx" --against-dim "${sizes[0]}" --against-dim "${sizes[1]}"
done
check 'models of other outputs are refused' complains 1 'second graph: 2 outputs; expected 1' \
  "${run[@]}" --against "$models/bert_small.onnx" --against-dim batch=1 --against-dim sequence=8
check 'inputs of other sizes are refused' complains 1 'input_0.pb: a tensor of other sizes; expected float32' \
  "$run_model" "$models/resnet_small.onnx" --dim batch=3 --backend reference --data "$scratch/data"
mkdir "$scratch/text" && printf 'not a tensor' >"$scratch/text/input_0.pb"
check 'so are those that are not tensors' complains 1 'input_0.pb: no tensor' "${run[@]}" --data "$scratch/text"
check 'and those that are not there' complains 1 'nowhere/input_0.pb' "${run[@]}" --data "$scratch/nowhere"
check 'a place where nothing can be saved is told' complains 1 'expected' \
  "${run[@]}" --save "$scratch/text/input_0.pb/data"

mkdir "$scratch/kept" && cp "$scratch/data/input_0.pb" "$scratch/kept" && mkdir "$scratch/kept/output_0.pb"
check 'where one file cannot be saved' complains 1 'is a directory' "${run[@]}" --seed 9 --save "$scratch/kept"
check 'the others stay what they were' cmp -s "$scratch/data/input_0.pb" "$scratch/kept/input_0.pb"
check 'no output is saved over those to compare with' complains 1 'save: .*, which --data reads' \
  "${run[@]}" --data "$scratch/data" --save "$scratch/data"
mkdir "$scratch/inputs" && cp "$scratch"/data/input_* "$scratch/inputs"
check 'a tolerance of outputs that are not there is refused' complains 1 'tolerance: no output_N.pb in' \
  "${run[@]}" --data "$scratch/inputs" --tolerance 1
check 'flags of what is not there are refused' complains 1 'tolerance.*--data or --against' "${run[@]}" --tolerance 1
check 'so are sizes of a second model' complains 2 'against' "${run[@]}" --against-dim batch=1

# y = x + [16777217, 3] in int64, and y = x + 1e-10 in float64.
mkdir "$scratch/integers" "$scratch/doubles"
base64 -d >"$scratch/integers.onnx" <<<'CAg6UAoOCgF4CgFjEgF5IgNBZGQSAWcqGQgCEAdCAWNKEAEAAAEAAAAAAwAA
AAAAAABaDwoBeBIKCggIBxIECgIIAmIPCgF5EgoKCAgHEgQKAggCQgQKABAR'
base64 -d >"$scratch/doubles.onnx" <<<'CAg6SAoOCgF4CgFjEgF5IgNBZGQSAWcqEQgBEAtCAWNKCLu919nffNs9Wg8K
AXgSCgoICAsSBAoCCAFiDwoBeRIKCggICxIECgIIAUIECgAQEQ=='
base64 -d >"$scratch/integers/input_0.pb" <<<CAIQB0IBeEoQAOH1BQAAAAAFAAAAAAAAAA==
base64 -d >"$scratch/doubles/input_0.pb" <<<CAEQC0IBeEoIAAAAAAAA8D8=
for type in integers:116777217,8:qq doubles:1.0000000001:d; do
  IFS=: read -r name values format <<<"$type"
  check "$name are saved" silent "$run_model" "$scratch/$name.onnx" --backend reference --data "$scratch/$name" \
    --save "$scratch/${name}_out"
  check '... without a rounding to float32' "${python:-/usr/bin/python3}" -c 'import struct, sys
path, form, values = sys.argv[1:]
found = struct.unpack("<" + form, open(path, "rb").read()[-8 * len(form):])
assert found == tuple(float(x) for x in values.split(",")), found' \
    "$scratch/${name}_out/output_0.pb" "$format" "$values"
done
cp "$scratch/doubles/input_0.pb" "$scratch/doubles_out/output_0.pb"
check 'numbers of float64 are compared as such' complains 1 'outputs differ' "$run_model" "$scratch/doubles.onnx" \
  --backend reference --data "$scratch/doubles_out" --tolerance 1e-11

if "$run_model" --help | grep -q 'cpu'; then
  check 'outputs of the reference backend' silent \
    "$run_model" "${small[@]}" --backend reference --save "$scratch/reference"
  check 'are those of the cpu backend' silent \
    "$run_model" "${small[@]}" --backend cpu --data "$scratch/reference" --tolerance 1e-5 --json "$scratch/9.json"
  check 'which is in the JSON' json "$scratch/9.json" \
    'x["backend"] == "cpu" and 0 <= x["max_rel_error"] < 1e-5 and x["launches"] > 0'
fi
finish
