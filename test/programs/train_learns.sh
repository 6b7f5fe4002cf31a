#!/usr/bin/env bash
# Small models learn from real data, and the same under several strategies: LeNet reads digits of console fonts that it
# has not seen, and a decoder of one layer guesses the next character of licenses, on threads.
# usage: train_learns.sh TRAIN MAKE_PLAN DATA_SCRIPTS SCRATCH_DIR PARALLELIZE; the last one may be -: then a random plan
# is used
set -u
train=$1 make_plan=$2 scripts=$3 scratch=$4 parallelize=$5
rm -rf "$scratch" && mkdir -p "$scratch"
# shellcheck source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"
python=${python:-/usr/bin/python3}

# plans NAME MODEL_WITH_BATCH DEVICES BATCH OPTIMIZER: of three strategies, at $scratch/NAME.{data,model,third}.json
plans() {
  local how
  for how in data model random; do
    silent "$make_plan" "$2&batch=$(($3 * $4))" "p100:1x$3" "$how" "$scratch/plan.json" || return 1
    "$python" -c 'import json, sys
x = json.load(open(sys.argv[1])); x["optimizer"] = sys.argv[3]; json.dump(x, open(sys.argv[2], "w"))' \
      "$scratch/plan.json" "$scratch/$1.${how/random/third}.json" "$5" || return 1
  done
  if [ "$parallelize" != - ]; then
    silent timeout 100 "$parallelize" "$2&batch=$4" --machine "p100:1x$3" --search flexflow --max-proposals 3000 \
      --optimizer "$5" --out "$scratch/$1" && cp "$scratch/$1/plan.json" "$scratch/$1.third.json"
  fi
}
# learns NAME ACCURACY LOSS FLAGS...: under each of the three, at least so accurate in the end, and with
# so small a loss at most.
learns() {
  local name=$1 accuracy=$2 loss=$3 how
  shift 3
  for how in data model third; do
    check "$name, $how: trains" silent timeout 100 \
      "$train" "$scratch/$name.$how.json" "$@" --json "$scratch/$name.$how.result"
    check "$name, $how: an accuracy of $accuracy, a loss of $loss" json "$scratch/$name.$how.result" \
      "x['accuracy'] >= $accuracy and x['loss'][-1] <= $loss and x['loss'][-1] < 0.6 * x['loss'][0]"
  done
  for how in model third; do
    check "$name, $how: as with data parallelism" "$python" -c 'import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
far = max(abs(x - y) / y for x, y in zip(a["loss"][:20], b["loss"][:20]))
near = abs(a["loss"][-1] - b["loss"][-1]) < 0.02 * b["loss"][-1] + 1e-3 and abs(a["accuracy"] - b["accuracy"]) < 0.01
sys.exit(not (far < 1e-4 and near))' \
      "$scratch/$name.$how.result" "$scratch/$name.data.result"
  done
  "$python" -c 'import json, sys
for f in sys.argv[1:]:
    x = json.load(open(f))
    name = f.split("/")[-1][:-7]
    print("%s: loss %.4f after %d steps, accuracy %.4f" % (name, x["loss"][-1], x["steps"], x["accuracy"]))' \
    "$scratch/$name".{data,model,third}.result
}

made=0
if silent "$python" "$scripts/make_text.py" "$scratch/text.set"; then
  made=1
  check 'plans of a decoder' plans gpt 'zoo:gpt?layers=1&hidden=32&heads=2&seq=32&vocab=96' 2 8 adam
  # The most frequent character is a sixth of all; there are 84.
  learns gpt 0.33 2.4 --data "$scratch/text.set" --steps 400 --rate 0.005
  check 'a data set has no targets of mean squares' complains 1 'text.set: nothing for input "target of 0"' \
    timeout 60 "$train" "$scratch/gpt.data.json" --data "$scratch/text.set" --loss mean_square
else
  echo "left out, the decoder: $(cat "$scratch/stderr")"
fi
if silent "$python" "$scripts/make_glyphs.py" "$scratch/glyphs.set" --size 32 ${fonts:+--fonts "$fonts"}; then
  made=1
  check 'plans of LeNet' plans lenet 'zoo:lenet?form=faithful' 4 8 sgd
  learns lenet 0.95 0.1 --data "$scratch/glyphs.set" --shift 1 --steps 100 --rate 0.5
else
  echo "left out, LeNet: $(cat "$scratch/stderr")"
fi
[ "$made" = 1 ] || exit 77
finish
