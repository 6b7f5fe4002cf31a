#!/usr/bin/env bash
# The script that compares models in onnxruntime: bad input is reported in one line, equal models pass, others fail.
# usage: compare_engines.sh SCRIPT OPTIMIZE RUN_MODEL MODEL_DIR SCRATCH_DIR
# Exit codes: 0; 1 if a check fails; 77 with a reason if no onnxruntime is installed (activate the virtual
# environment that has it).
set -u
script=$1 optimize=$2 run_model=$3 models=$4 scratch=$5
rm -rf "$scratch" && mkdir -p "$scratch"
export XDG_CACHE_HOME=$scratch/cache
python=$(command -v python3)
# shellcheck source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"

compare=("$python" "$script" --run-model "$run_model" --backend reference)
small=$models/resnet_small.onnx
check 'no model is bad usage' complains 2 'MODEL.onnx' "${compare[@]}"
check 'so is a dimension without a size' complains 2 "'batch'; expected NAME=N" "${compare[@]}" "$small" --dim batch
check 'and a size of 0' complains 2 "'batch=0'; expected NAME=N" "${compare[@]}" "$small" --dim batch=0
check 'and a result that belongs to nothing' complains 2 '--result' "${compare[@]}" "$small" --result x.json
check 'and flags for a program that is not called' complains 2 'flags of optimize' \
  "${compare[@]}" "$small" "$small" -- --budget 1s
check 'and a folder beside a file' complains 2 'suite' "$python" "$script" "$models" "$small" --suite
# -S: a Python without any installed package.
check 'onnxruntime is missed in one line' complains 1 'onnxruntime: cannot be imported.*pip install' \
  "$python" -S "$script" "$small"
if ! "$python" -c 'import numpy, onnxruntime' 2>"$scratch/stderr"; then
  [ "$failed" = 0 ] || finish
  echo "skipped: $python has no onnxruntime ($(tail -n 1 "$scratch/stderr"))"
  exit 77
fi

search=(--max-expansions 5 --cost analytic:v100)
check 'a model and its optimized form are compared' silent "${compare[@]}" "$small" --dim batch=2 --threads 1 --runs 5 \
  --seed 3 --optimize "$optimize" --out "$scratch/out" --json "$scratch/1.json" -- "${search[@]}" --run reference
check 'outputs and times of both engines are in the JSON' json "$scratch/1.json" \
  'x["passed"] and x["dimensions"] == {"batch": 2} and x["onnxruntime"]["runs"] == 5
   and x["onnxruntime"]["original_s"] > 0 and x["onnxruntime"]["optimized_s"] > 0
   and abs(x["onnxruntime"]["ratio"] * x["onnxruntime"]["optimized_s"] / x["onnxruntime"]["original_s"] - 1) < 1e-9
   and [o["shape"] for o in x["onnxruntime"]["outputs"]] == [[2, 10]] and x["onnxruntime"]["max_rel_error"] < 1e-4
   and x["unity"]["backend"] == "reference" and x["unity"]["max_rel_error"] < 1e-4
   and abs(x["unity_over_onnxruntime"]["original"] * x["onnxruntime"]["original_s"] / x["unity"]["original_s"] - 1)
   < 1e-9'
check 'the times of unity are those of optimize' json "$scratch/1.json" \
  "x['unity']['original_s'] == json.load(open('$scratch/out/result.json'))['run']['original_s']"
check 'unity computes what onnxruntime does' json "$scratch/1.json" \
  'x["unity_outputs"]["backend"] == "reference" and 0 < x["unity_outputs"]["max_rel_error"] < 1e-4'
check 'which is in the table' grep -q '^original in unity (reference) and onnxruntime: ' "$scratch/stdout"
check 'and in the table' grep -q '^unity over onnxruntime ' "$scratch/stdout"
given=("$small" "$scratch/out/optimized.onnx" --threads 1 --runs 5)
check 'two files are compared alone' silent "${compare[@]}" "${given[@]}" --dim batch=2 --json "$scratch/2.json"
check 'also without run_model' silent "${compare[@]}" --run-model "$scratch/nowhere" "${given[@]}" --dim batch=2
check 'which is said, too' grep -q 'outputs of unity not compared' "$scratch/stdout"
check 'without times of unity' json "$scratch/2.json" '"unity" not in x and x["passed"]'
check 'which is said' grep -q 'no times of unity' "$scratch/stdout"
check 'and with them' silent \
  "${compare[@]}" "${given[@]}" --dim batch=2 --result "$scratch/out/result.json" --json "$scratch/3.json"
check 'from the JSON of optimize' json "$scratch/3.json" 'x["unity"]["backend"] == "reference"'
check 'inputs of integers have a range' silent "${compare[@]}" "$models/bert_small.onnx" --dim batch=1 \
  --dim sequence=8 --below input_ids=50 --threads 1 --runs 5 --optimize "$optimize" -- "${search[@]}"

mkdir "$scratch/suite" "$scratch/empty" && cp "$small" "$scratch/suite"
printf 'not a model' >"$scratch/suite/text.onnx"
check 'a folder is a table' silent "$python" "$script" "$scratch/suite" --suite --dim batch=2 --threads 1 --runs 5 \
  --optimize "$optimize" --json "$scratch/6.json" -- --budget 2s --python "$python"
check 'with a row for each model, also for one that stops' json "$scratch/6.json" \
  '[r["model"] for r in x] == ["resnet_small.onnx", "text.onnx"] and "problem" in x[1] and x[0]["unity"] > 0
   and x[0]["off"] > 0 and x[0]["unity_error"] < 1e-4 and x[0]["measured"]["engine"] == "onnxruntime"'

# refuses WHAT PATTERN ARGUMENT...: the script complains.
refuses() { check "$1" complains 1 "$2" "${compare[@]}" "${@:3}"; }
refuses 'other outputs are found' "output 'output': relative error .*expected at most 1e-12" \
  "${given[@]}" --dim batch=2 --tolerance 1e-12 --json "$scratch/4.json"
check 'and are in the JSON' json "$scratch/4.json" 'not x["passed"] and x["onnxruntime"]["max_rel_error"] > 1e-12'
refuses 'a size that is missing is told' 'dimension batch; expected --dim batch=SIZE' "${given[@]}"
refuses 'a size that the model has not, too' '--dim lot: .*expected one of: batch' "${given[@]}" --dim lot=2
refuses 'and one that the optimized model has not' 'optimized for these sizes' "${given[@]}" --dim batch=3
refuses 'and a range of no integer' '--below input: .*none' "${given[@]}" --dim batch=2 --below input=3
refuses 'a range that does not fit the model is told' 'does not run it: .*indices' \
  "$models/bert_small.onnx" "$models/bert_small.onnx" --dim batch=1 --dim sequence=8 --below input_ids=5000
refuses 'models of other inputs are told' "bert_small.onnx: has the input 'input_ids'" \
  "$small" "$models/bert_small.onnx" --dim batch=1
check 'a folder without models' complains 1 'empty: has no .onnx file' "$python" "$script" "$scratch/empty" --suite
refuses 'a model that is not there' 'nowhere.onnx: no such file' "$scratch/nowhere.onnx"
printf 'not a model' >"$scratch/text.onnx"
refuses 'what is not a model' 'text.onnx: onnxruntime does not take it' "$scratch/text.onnx"
refuses 'what is not a result' 'text.onnx: .*expected the JSON of optimize' \
  "${given[@]}" --dim batch=2 --result "$scratch/text.onnx"
refuses 'a program that is not there' 'nowhere: .*see --optimize' \
  "$small" --dim batch=1 --optimize "$scratch/nowhere"
refuses 'what optimize complains of' 'exit code 1: .*abacus' \
  "$small" --dim batch=1 --optimize "$optimize" -- --cost analytic:abacus
refuses 'a place that cannot be written' 'text.onnx.*expected' \
  "$small" --dim batch=1 --out "$scratch/text.onnx/x" --optimize "$optimize"
refuses 'a JSON that cannot be written' '/dev/full: .*expected' "${given[@]}" --dim batch=2 --json /dev/full

if "$python" -c 'import onnx' 2>/dev/null; then
  silent "$optimize" 'zoo:bert?layers=1' --rules /dev/null --out "$scratch/zoo"
  check 'weights without data get the same in both models' silent "${compare[@]}" "$scratch/zoo/optimized.onnx" \
    --threads 1 --runs 5 --level off --optimize "$optimize" --json "$scratch/5.json" -- "${search[@]}"
  check 'and are not inputs' json "$scratch/5.json" 'x["passed"] and 0 < x["onnxruntime"]["max_rel_error"] < 1e-4'
fi
finish
