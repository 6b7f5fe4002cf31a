#!/usr/bin/env bash
# `fuse`: its results, files and error messages, and training of its plans.
# usage: fuse.sh FUSE TRAIN MEASURE_KERNELS TRAIN_ESTIMATOR SOURCE_DIR SCRATCH_DIR
set -u
fuse=$1 train=$2 measure=$3 estimate=$4 source=$5 scratch=$6
rm -rf "$scratch" && mkdir -p "$scratch"
. "$(dirname "$0")/../support/checks.sh"
cd "$scratch" || exit 1
model='zoo:bert?layers=1&hidden=32&heads=4&seq=16&vocab=50&batch=4'

check "kernels and buckets are found" silent "$fuse" "$model" --machine host:1x2 --budget 20s --seed 3 --out one \
  --json one.json
check "... faster than rules, not faster than can be" json one.json 'x["best"] == "disco" and len(x["strategies"])
  == 9 and
  all(s["iteration_s"] >= x["bound_s"] and s["iteration_s"] >= max(s["compute_s"], s["communication_s"]) - 1e-12
      for s in x["strategies"]) and x["groups"] and x["search"]["candidates"] > 1000'
check "... again" silent "$fuse" "$model" --machine host:1x2 --budget 20s --seed 3 --threads 2 --out two --json two.json
check "... the same, by two threads" cmp one/fusion.json two/fusion.json
check "... the plan, too" cmp one/plan.json two/plan.json
check "methods are left out" silent "$fuse" "$model" --machine 1080ti:6x2 --budget 5s --methods join --json join.json
check "... no kernel is fused" json join.json '[s for s in x["strategies"] if s["name"] == "disco"][0]["fused"] == 0'
check "channels are simulated" silent "$fuse" "$model" --machine 1080ti:6x2 --budget 1s --channels 2 \
  --json channels.json
check "... in no more time than one takes" json channels.json 'all(s["channels_s"] <= 1.0001 * s["iteration_s"]
  for s in x["strategies"])'

check "a round is written" silent "$fuse" "$model" --machine host:1x2 --refine off --patience 30 \
  --checkpoint state --out kept
check "... and goes on" silent "$fuse" "$model" --machine host:1x2 --refine off --patience 60 --resume state \
  --json on.json
check "... where it was" json on.json 'x["search"]["expanded"] > 30'
for a in beam mcmc; do
  check "$a searches, too" silent "$fuse" "$model" --machine host:1x2 --algorithm $a --refine off --budget 2s \
  --json $a.json
  check "... and finds something" json $a.json 'x["best"] == "disco"'
done

check "ranks train what was found" silent "$train" one/plan.json --fusion one/fusion.json --ranks 2 --backend cpu \
  --steps 3 \
  --check --json trained.json --program program.txt
check "... with the losses of one device" json trained.json 'x["loss"][0] != x["loss"][-1]'
check "... by fused kernels" grep -q ' = one kernel of ' program.txt
check "ranks train it without" silent "$train" one/plan.json --ranks 2 --backend cpu --steps 3 --json plain.json
check "... to the same losses" "${python:-/usr/bin/python3}" -c 'import json
a, b = (json.load(open(f))["loss"] for f in ("trained.json", "plain.json"))
assert len(a) == len(b) == 3 and all(abs(x / y - 1) < 1e-4 for x, y in zip(a, b))'

for sync in zero=1 zero=2 ps; do
  check "ranks train it with --sync $sync" silent "$train" one/plan.json --fusion one/fusion.json --ranks 2 \
    --backend cpu --steps 3 --sync $sync --check
done

check "operators stay as they are where asked" silent "$fuse" "$model" --machine host:1x2 --grain operators \
  --budget 2s --seed 3 --out operators
check "... which the result says" grep -q '"grain": "operators"' operators/fusion.json
check "... and ranks train it" silent "$train" operators/plan.json --fusion operators/fusion.json --ranks 2 \
  --backend cpu --steps 3 --check

# Its states are weights with a row per sample, whose gradients have a part per device.
check "a model whose ranks differ" silent "$fuse" "zoo:nasrnn?batch=2&hidden=4&seq=2" --machine host:1x3 \
  --strategy xla --grain primitives --budget 0.2s --out differing
check "... is trained on three" silent "$train" differing/plan.json --fusion differing/fusion.json --backend cpu \
  --steps 2 --check
check "kernels are measured" silent "$measure" "$model" --samples 60 --seconds 0.0005 --out kernels
check "... for a longer time" silent "$measure" "$model" --samples 1 --seconds 0.01 --out longer
check "... in more runs of short ones" grep -q ' 5 to 500 runs$' stdout
check "an estimator is trained" silent "$estimate" kernels --hidden 16 --layers 1 --epochs 3 --out estimator
measured="--cost measured:cpu --backend-threads 1 --timings none"
check "... and asked" silent "$fuse" "$model" --machine host:1x2 $measured --budget 2s --estimator estimator \
  --json asked.json
check "... which the result says" json asked.json 'x["estimator"] == "estimator"'

hlo=$source/test/io/hlo_data
check "HLO is fused" silent "$fuse" --hlo "$hlo/data_parallel.unfused.hlo" --machine t4:1x4 --budget 2s --out hlo \
  --json h.json
check "... and read again" silent "$fuse" --hlo hlo/module.hlo --machine t4:1x4 --budget 1s
check "... with combined all-reduces" json h.json 'max(s["buckets"] for s in x["strategies"]) > 1'
check "... as a flag says" grep -q all_reduce hlo/xla_flags.txt

refused() { complains 1 "$1" "$fuse" "${@:2}" --out none && [ ! -e none ]; }
check "one device" refused 'p100:1x1: one device; expected two at least' zoo:lenet --machine p100:1x1
check "no such model" refused 'zoo: model "x"' zoo:x --machine t4:1x2
check "no model" refused 'MODEL: missing; expected a model, or --hlo FILE' --machine t4:1x2
check "a batch that devices cannot share" refused 'expected' "$source/README.md" --machine t4:1x2
head -c 2000 "$hlo/mlp.after.hlo" >cut.hlo
check "HLO that is cut" refused 'cut.hlo' --hlo cut.hlo --machine t4:1x2
sed 's/dot(/quark(/' "$hlo/mlp.after.hlo" >unknown.hlo
check "unknown opcodes are kept" silent "$fuse" --hlo unknown.hlo --machine t4:1x2 --budget 1s --out unknown
check "... as they are" grep -q 'quark(' unknown/module.hlo
printf 'unity learned 2\n' >later
check "an estimator of another version" refused 'later: ' zoo:lenet --machine host:1x2 --estimator later
check "measured operators without an estimator" refused 'expected --estimator FILE besides' "$model" \
  --machine host:1x2 $measured
check "an estimator of times that nobody measures" refused 'estimator: an estimator that reads what operators take' \
  "$model" --machine host:1x2 --estimator "$scratch/estimator"
check "collectives of other devices" refused 'expected some, as the machine has so many' zoo:lenet --machine t4:1x3 \
  --collectives <(printf 'collective,gpus,size_mb,time_ms\nall_reduce,2,1,1\n')
sed 's/"op":"matmul"/"op":"conv2d"/' one/fusion.json >other.json
check "kernels of another model" complains 1 'of a fusion plan: conv2d as step' "$train" one/plan.json \
  --fusion other.json \
  --ranks 2 --backend cpu --steps 1
check "a backend without fused kernels" complains 1 'backend reference: fused kernels' "$train" one/plan.json \
  --fusion one/fusion.json --ranks 2 --steps 1 --backend reference
for option in '--optimizer adam' '--grain operators' '--dim batch=2'; do
  # shellcheck disable=SC2086
  check "HLO with ${option% *}" refused "${option% *}: given with --hlo; expected a MODEL" \
    --hlo "$hlo/mlp.after.hlo" --machine t4:1x2 $option
done
check "a strategy that is written nowhere" complains 1 '--strategy: given without --out' "$fuse" zoo:lenet \
  --machine t4:1x2 --strategy ddp
check "checkpoints of another search" refused '--checkpoint and --resume: given with --algorithm beam' zoo:lenet \
  --machine 1080ti:1x2 --algorithm beam --checkpoint other
check "a limit of another search" refused '--alpha and --patience: given with --algorithm beam' zoo:lenet \
  --machine 1080ti:1x2 --algorithm beam --patience 7
finish
