#!/usr/bin/env bash
# `optimize --target`: the engine decides, the original is kept if nothing is faster, and an engine that is missing,
# dies, hangs or writes invalid output is reported in one line.
# usage: target.sh OPTIMIZE MODEL_DIR SCRATCH_DIR
# The engine is engine.py beside this script, and onnxruntime if python3 has it; otherwise a line says so.
set -u
optimize=$1 models=$2 scratch=$3
rm -rf "$scratch" && mkdir -p "$scratch/tmp"
export XDG_CACHE_HOME=$scratch/cache TMPDIR=$scratch/tmp
python=$(command -v python3)
# shellcheck source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"

small=("$optimize" "$models/resnet_small.onnx" --dim batch=1 --max-expansions 20)
target=("${small[@]}" --target onnxruntime --python "$python")
fake=("${target[@]}" --timer "$(dirname "$0")/engine.py" --engine-limit 1s)

# chooses WHAT FASTER EXPRESSION: the fake engine's candidates are so many times as fast.
chooses() {
  export ENGINE_FASTER=$2
  rm -rf "$scratch/out"
  check "$1: runs" silent "${fake[@]}" --engine-threads 3 --out "$scratch/out" --json "$scratch/1.json"
  check "$1" json "$scratch/1.json" "$3"
  unset ENGINE_FASTER
}
chooses 'a faster result is taken' 1.25 \
  'x["measured"]["engine"] == "fake" and x["measured"]["version"] == "1.0" and x["measured"]["threads"] == 3
   and not x["measured"]["kept_original"] and abs(x["measured"]["ratio"] - 1.25) < 1e-9
   and abs(x["measured"]["original_s"] / x["measured"]["optimized_s"] - 1.25) < 1e-9
   and x["measured"]["rounds"] == 200 and x["rules_used"] and x["nodes_after"] < x["nodes_before"]
   and x["measured"]["candidates"][0]["about"] == "all rules"
   and all(x[k]["optimized"] <= x[k]["original"] for k in ("file_bytes", "nodes"))'
check 'and written' test -s "$scratch/out/optimized.onnx"
check 'which is another file' bash -c "! cmp -s '$models/resnet_small.onnx' '$scratch/out/optimized.onnx'"
chooses 'what is within noise is not' 1.005 \
  'x["measured"]["kept_original"] and not x["rules_used"] and x["nodes_after"] == x["nodes_before"]
   and x["cost_after_s"] == x["cost_before_s"] and x["signature_kept"]
   and all(x[k]["optimized"] == x[k]["original"] > 0 for k in ("file_bytes", "nodes"))'
check 'then the original is written, to the byte' \
  cmp "$models/resnet_small.onnx" "$scratch/out/optimized.onnx"
check 'and that is said' grep -q '^the original is kept: nothing is faster in fake by more than 1%' "$scratch/stdout"
chooses 'nor what is slower' 0.5 'x["measured"]["kept_original"] and x["measured"]["ratio"] < 0.51'
chooses 'of several the best is' '0.9 1.5 1.2' \
  'not x["measured"]["kept_original"] and abs(x["measured"]["ratio"] - 1.5) < 1e-9
   and [round(c["ratio"], 6) for c in x["measured"]["candidates"][:3]] == [0.9, 1.5, 1.2]'
check 'files to time do not stay' test -z "$(ls "$scratch/tmp")"
after_a_killed_run() { # as if one that was killed had the same process number
  bash -c 'mkdir "$TMPDIR/unity-candidates-$$" && exec "$@"' bash "$@"
}
check 'a folder that another run left is not a hindrance' silent after_a_killed_run "${fake[@]}"
check 'and is not taken' test -n "$(ls "$scratch/tmp")"
rm -rf "$scratch/tmp/"*

# drops FAULT PATTERN: the first candidate fails so, and the others are timed.
drops() {
  ENGINE_FAULT=$1 ENGINE_FAULT_AT=1 ENGINE_FASTER='1 2' \
    check "a candidate is dropped: $1" silent "${fake[@]}" --json "$scratch/2.json"
  check "which is said: $1" json "$scratch/2.json" \
    "__import__('re').search('$2', x['measured']['candidates'][0]['dropped'])
     and 'ratio' not in x['measured']['candidates'][0]
     and not x['measured']['kept_original'] and x['measured']['ratio'] > 1.9"
  check "also in the text: $1" grep -qE "^tried: all rules .*dropped: .*$2" "$scratch/stdout"
}
drops refuse 'no kernel'
drops differ 'outputs differ from the original.s by 0.5; expected a relative error of at most 0.0001'
drops nan 'outputs differ from the original.s by inf'
drops die 'died \(signal 6: a crash\)'
drops hang 'no answer within 1 s'
drops garbage "answers .3.14, \{.; expected a line of JSON"
drops form 'an answer of another form'

# refuses FAULT PATTERN: nothing can be timed.
refuses() {
  ENGINE_FAULT=$1 ENGINE_FAULT_AT=0 check "one line: $1" complains 1 "--target onnxruntime: .*$2" \
    "${fake[@]}" --out "$scratch/none"
  check "and nothing written: $1" test ! -e "$scratch/none"
}
refuses dead_start 'died \(exit code 1: no such engine here\)'
refuses silent_start 'no answer within 1 s; expected one; see --engine-limit'
refuses garbage_start "answers 'Welcome!'; expected a line of JSON"
refuses other_start 'its first line is .*hello'
refuses missing 'onnxruntime: cannot be imported; expected what .pip install'
refuses refuse 'no kernel'
refuses die 'died \(signal 6: a crash\)'
refuses hang 'no answer within 1 s'

# A rule that no sum of operators rewards is timed in the whole model; the last of them here, which is the fastest.
check 'rules for engines are timed' silent env 'ENGINE_FASTER=1 1 1 1 1 1 1 1 2' "$optimize" "$models/bert_small.onnx" \
  --dim batch=1 --dim sequence=8 --max-expansions 20 --target onnxruntime --python "$python" \
  --timer "$(dirname "$0")/engine.py" --engine-limit 5s --out "$scratch/rewritten" --json "$scratch/9.json"
check 'and taken' json "$scratch/9.json" \
  'x["measured"]["candidates"][-1]["about"] == "norm_of_flat_sum wherever it applies" and x["measured"]["ratio"] == 2
   and [u["count"] for u in x["rules_used"] if u["name"] == "norm_of_flat_sum"] == [5]
   and x["cost_after_s"] < x["cost_before_s"]'

measures=("${fake[@]}" --cost measured:onnxruntime)
check 'operators are measured in the engine' silent "${measures[@]}" --json "$scratch/4.json"
check 'each once' json "$scratch/4.json" \
  'x["measuring"]["measured"] > 0 and x["measuring"]["known"] == 0 and x["measuring"]["device"].startswith("fake 1.0, ")
   and x["measured"]["candidates"]'
check 'and kept' silent "${measures[@]}" --json "$scratch/5.json"
check 'for the next time' json "$scratch/5.json" 'x["measuring"]["measured"] == 0 and x["measuring"]["known"] > 0'
check 'on one engine alone' complains 1 '--cost: measured:reference, besides --target onnxruntime' \
  "${fake[@]}" --cost measured:reference
check 'which has to be the target' complains 1 "no backend 'onnxruntime'" "${small[@]}" --cost measured:onnxruntime
check 'an engine that nobody knows' complains 1 "--target: no engine 'abacus'; expected onnxruntime, openvino" \
  "${small[@]}" --target abacus
check 'a Python that is not there' complains 1 "'$scratch/nowhere' does not start \(No such file.*--python" \
  "${small[@]}" --target onnxruntime --python "$scratch/nowhere"
check 'no folder for the files to time' complains 1 'TMPDIR: no folder can be made there .*expected a writable' \
  env TMPDIR="$scratch/nowhere" "${fake[@]}"
check 'a script that is not there' complains 1 'died \(exit code 2: .*nowhere.py' \
  "${target[@]}" --timer "$scratch/nowhere.py"
check 'a model without a file' complains 1 '--target: zoo:nasrnn, which has no file' \
  "$optimize" zoo:nasrnn --target onnxruntime
check 'training' complains 1 '--target: --mode training' "${target[@]}" --mode training
check 'flags of an engine without one' complains 1 'given without an engine; expected --target' \
  "${small[@]}" --engine-threads 2
check 'no time for an answer' complains 1 '--engine-limit: .0s.' "${target[@]}" --engine-limit 0s
# -S: a Python without any installed package.
printf '#!/bin/sh\nexec %s -S "$@"\n' "$python" >"$scratch/bare" && chmod +x "$scratch/bare"
check 'a Python without onnxruntime' complains 1 'onnxruntime: cannot be imported.*pip install' \
  "${small[@]}" --target onnxruntime --python "$scratch/bare"

# What Python has is the default: a Python that has the fake engine, and one that has none.
printf '#!/bin/sh\nexec %s %s\n' "$python" "$(dirname "$0")/engine.py" >"$scratch/has" && chmod +x "$scratch/has"
check 'an engine that is installed decides' silent env -u UNITY_TARGET "${small[@]}" --python "$scratch/has" \
  --json "$scratch/6.json"
check 'without a word' json "$scratch/6.json" 'x["measured"]["engine"] == "fake"'
check 'but not where a cost is asked for' silent env -u UNITY_TARGET "${small[@]}" --cost analytic:a100 \
  --json "$scratch/7.json"
check 'nor where none shall' silent env -u UNITY_TARGET "${small[@]}" --target none --json "$scratch/8.json"
check 'so' json "$scratch/7.json" \
  "'measured' not in x and 'measured' not in json.load(open('$scratch/8.json'))"
check 'without any' silent env -u UNITY_TARGET "${small[@]}" --python "$scratch/bare"
check 'that is said' grep -q "^predicted for v100 from its data sheet: $scratch/bare has no engine" "$scratch/stdout"
check 'nor one that does not run the model' silent env -u UNITY_TARGET ENGINE_FAULT=refuse ENGINE_FAULT_AT=0 \
  "${small[@]}" --python "$scratch/has" --json "$scratch/10.json"
check 'that is said, too' grep -q 'the engine does not run the original (--target onnxruntime: .*no kernel' \
  "$scratch/stdout"
check 'and the result is predicted' json "$scratch/10.json" '"measured" not in x and x["rules_used"]'

if ! "$python" -c 'import numpy, onnxruntime' 2>"$scratch/stderr"; then
  echo "not checked with the engine itself: $python has no onnxruntime ($(tail -n 1 "$scratch/stderr"))"
  finish
fi
check 'onnxruntime decides' silent "${target[@]}" --engine-threads 1 --out "$scratch/out" --json "$scratch/3.json"
check 'and says so' json "$scratch/3.json" \
  'x["measured"]["engine"] == "onnxruntime" and x["measured"]["rounds"] >= 5 and x["measured"]["candidates"]
   and all("ratio" in c for c in x["measured"]["candidates"]) and x["measured"]["original_s"] > 0'
finish
