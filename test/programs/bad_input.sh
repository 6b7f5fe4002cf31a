#!/usr/bin/env bash
# Bad input to `optimize`: one clear line on standard error, exit code 1 (2 for bad usage), nothing written.
# usage: bad_input.sh PROGRAM MODEL_DIR SCRATCH_DIR
set -u
program=$1 models=$2 scratch=$3
rm -rf "$scratch" && mkdir -p "$scratch"
passed=0 failed=0

# expect CODE PATTERN ARGUMENT...: runs the program; PATTERN must be in its only line of complaint.
expect() {
  local code=$1 pattern=$2 out=$scratch/out_$((passed + failed)) got
  shift 2
  timeout 120 "$program" "$@" --out "$out" >"$scratch/stdout" 2>"$scratch/stderr"
  got=$?
  local lines
  lines=$(wc -l <"$scratch/stderr")
  if [ "$got" = "$code" ] && grep -qiE -- "$pattern" "$scratch/stderr" && { [ "$code" != 1 ] || [ "$lines" = 1 ]; } &&
    [ -z "$(find "$out" -type f 2>/dev/null)" ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $* (exit $got, expected $code and '$pattern')"
    cat "$scratch/stderr"
  fi
}

rule() { printf '%s\n' "$1" >"$scratch/$2.rules"; }

head -c 5000 "$models/resnet_small.onnx" >"$scratch/truncated.onnx"
{ head -c 300 "$models/resnet_small.onnx"; head -c 3000 /dev/zero | tr '\0' '\377'; } >"$scratch/corrupt.onnx"
printf 'not a model' >"$scratch/text.onnx"
rule 'rule r relu(?x) => add(?x, ?y)' unbound
rule 'rule r relu(?x) => transpose{permutation=[1, 0]}(?x) tested 100' types
rule 'rule r relu(?x) => ' truncated
rule 'rule r nonsense(?x) => ?x' unknown
rule 'rule r relu(?x) => tanh(?x) tested 100' wrong

expect 1 'truncated.onnx' "$scratch/truncated.onnx" --dim batch=1
expect 1 'corrupt.onnx' "$scratch/corrupt.onnx" --dim batch=1
expect 1 'text.onnx' "$scratch/text.onnx"
cp "$models/resnet_small.onnx" "$scratch/"$'\xff.onnx'
expect 1 'MODEL: .* is not UTF-8' "$scratch/"$'\xff.onnx' --dim batch=1
expect 1 'missing.onnx' "$scratch/missing.onnx"
expect 1 "no dimension named 'height'; expected one of: batch" "$models/resnet_small.onnx" --dim height=3
expect 1 'zoo' zoo:no_such_model
expect 1 'layers' 'zoo:bert?layers=many'
expect 1 'nowhere.rules' zoo:nasrnn --rules "$scratch/nowhere.rules"
expect 1 'unbound variable \?y' zoo:nasrnn --rules "$scratch/unbound.rules"
expect 1 'rule r' zoo:nasrnn --rules "$scratch/types.rules"
expect 1 'truncated.rules:2:' zoo:nasrnn --rules "$scratch/truncated.rules"
expect 1 "operator 'nonsense'" zoo:nasrnn --rules "$scratch/unknown.rules"
expect 1 'rule r' zoo:nasrnn --rules "$scratch/wrong.rules"
expect 1 'analytic' zoo:nasrnn --cost analytic:abacus
expect 1 "cost kernels: 'abacus'; expected FILE.json, or one of" zoo:nasrnn --cost kernels:abacus
expect 1 "cost kernels: 'taso'" zoo:nasrnn --cost kernels:taso
expect 1 "cost: 'kernels'" zoo:nasrnn --cost kernels
expect 1 'budget' zoo:nasrnn --budget soon
expect 1 'memory-limit' zoo:nasrnn --memory-limit 3parsecs
expect 1 'checkpoint|readable' zoo:nasrnn --resume "$scratch/nowhere.checkpoint"
expect 1 'budget' zoo:nasrnn --budget nan
expect 1 "memory-limit: '0x10B'; expected a number" zoo:nasrnn --memory-limit 0x10B
expect 1 'dim' "$models/resnet_small.onnx" --dim batch=1.5
expect 1 'dim' "$models/resnet_small.onnx" --dim batch=1e30
expect 1 'memory-limit' zoo:nasrnn --memory-limit 1e30
expect 1 'checkpoint' zoo:nasrnn --search beam --checkpoint "$scratch/c"
expect 1 'No space|full' zoo:nasrnn --max-expansions 1 --json /dev/full
expect 1 'dim.*in its name' zoo:nasrnn --dim batch=1
expect 1 'a second time' "$models/resnet_small.onnx" --dim batch=1 --dim batch=2
expect 1 'alpha.*backtracking' zoo:nasrnn --search mcmc --alpha 1.1
expect 1 'flops-weight' zoo:nasrnn --cost flops --flops-weight 0.5
expect 1 'is a directory' zoo:nasrnn --json "$scratch"
expect 2 "seed: '-1'; expected a whole number from 0 on" zoo:nasrnn --seed -1
expect 2 "seed: '010'; expected a whole number without zeros in front" zoo:nasrnn --seed 010
expect 2 "budget: ''; expected a value" zoo:nasrnn --budget ''
expect 2 "memory-limit: ''; expected a value" zoo:nasrnn --memory-limit ''
expect 2 "max-expansions: '-1'; expected a whole number from 0 on" zoo:nasrnn --max-expansions -1
expect 2 "alpha: 'nan'; expected a number from 1 to" zoo:nasrnn --alpha nan
expect 1 'resume.*backtracking or exact' zoo:nasrnn --search beam --resume "$scratch/c"
expect 1 'width.*beam' zoo:nasrnn --width 3
expect 1 'beta.*mcmc' zoo:nasrnn --search beam --beta 3
expect 1 '/dev/zero: is a device' /dev/zero
expect 1 '/dev/zero: is a device' zoo:nasrnn --rules /dev/zero
expect 2 'search: divination not in \{backtracking,beam,exact,mcmc\}' zoo:nasrnn --search divination
expect 2 'floor: 1 not in \{assumed,proved,tested\}' zoo:nasrnn --floor 1
expect 2 'MODEL' --alpha 1.1

# A flag with a value may come before the model.
if "$program" --dim batch=1 "$models/resnet_small.onnx" --max-expansions 1 >/dev/null 2>"$scratch/stderr"; then
  passed=$((passed + 1))
else
  failed=$((failed + 1)) && echo 'FAILED: a dimension before the model' && cat "$scratch/stderr"
fi

# A limit that nothing keeps is told.
if "$program" zoo:lenet --max-expansions 1 --memory-limit 1B >"$scratch/stdout" 2>"$scratch/stderr" &&
  grep -qE '^does not fit: .* more than --memory-limit$' "$scratch/stdout"; then
  passed=$((passed + 1))
else
  failed=$((failed + 1)) && echo 'FAILED: a limit that nothing keeps' && cat "$scratch/stdout" "$scratch/stderr"
fi

# Results in one file, and one that would replace the model.
"$program" zoo:lenet --max-expansions 1 --out "$scratch/pair" --json "$scratch/pair/optimized.dot" \
  >/dev/null 2>"$scratch/stderr"
code=$?
cp "$models/resnet_small.onnx" "$scratch/optimized.onnx"
"$program" "$scratch/optimized.onnx" --dim batch=1 --max-expansions 1 --out "$scratch" >/dev/null 2>>"$scratch/stderr"
if [ "$code $?" = '1 1' ] && [ "$(grep -c 'which another argument names' "$scratch/stderr")" = 2 ] &&
  cmp -s "$models/resnet_small.onnx" "$scratch/optimized.onnx" && [ ! -e "$scratch/pair" ]; then
  passed=$((passed + 1))
else
  failed=$((failed + 1)) && echo 'FAILED: results over others' && cat "$scratch/stderr"
fi

# Outputs that cannot be written.
printf '' >"$scratch/file"
"$program" zoo:nasrnn --max-expansions 1 --out "$scratch/file/below" >/dev/null 2>"$scratch/stderr"
code=$?
if [ $code = 1 ] && [ "$(wc -l <"$scratch/stderr")" = 1 ]; then
  passed=$((passed + 1))
else
  failed=$((failed + 1)) && echo 'FAILED: unwritable folder' && cat "$scratch/stderr"
fi

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
