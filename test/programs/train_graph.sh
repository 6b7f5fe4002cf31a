#!/usr/bin/env bash
# `train_graph`: what it trains and writes, and what it complains of.
# usage: train_graph.sh TRAIN_GRAPH SCRATCH_DIR
set -u
program=$1 scratch=$2
rm -rf "$scratch" && mkdir -p "$scratch"
. "$(dirname "$0")/../support/checks.sh"
cd "$scratch" || exit 1
export OMP_WAIT_POLICY=passive  # ranks share cores

small="attached:120:3 --features 12 --classes 3 --hidden 4 --rate 0.05"
check "a model is trained on ranks" silent "$program" $small --epochs 9 --ranks 2 --repartition-every 3 --check \
  --evaluate-every 3 --json whole.json --checkpoint whole.weights --trace trace.json
check "... its loss falls, and is that of one rank" json whole.json 'x["max_rel_error_vs_single"] < 1e-5 and
  x["epochs"][8]["loss"] < x["epochs"][0]["loss"] and len(x["epochs"]) == 9 and x["ranks"] == 2'
check "... by ranges of all vertices" json whole.json 'x["partition"][0]["begin"] == 0 and
  x["partition"][0]["end"] == x["partition"][1]["begin"] and x["partition"][1]["end"] == x["vertices"] == 120 and
  all(p["measured_s"] > 0 for p in x["partition"]) and x["halo_bytes"] > 0'
check "... and accuracies are shares, every third epoch" json whole.json 'all(
  (e["accuracy"] is not None) == (i % 3 == 2) for i, e in enumerate(x["epochs"])) and 0 <= x["accuracy"]["test"] <= 1'
check "... the trace names layers" json trace.json 'any(e["name"] == "layer 1" for e in x["traceEvents"])'
check "half of it is trained" silent "$program" $small --epochs 4 --ranks 1 --checkpoint half.weights
check "... and the rest, on other ranks" silent "$program" $small --epochs 9 --ranks 3 --resume half.weights \
  --json rest.json
check "... to the same loss" json rest.json 'x["first_epoch"] == 4 and
  abs(x["epochs"][4]["loss"] / json.load(open("whole.json"))["epochs"][8]["loss"] - 1) < 1e-5'
for model in gin sage_mean sage_max commnet fastgcn gat; do
  check "$model" silent "$program" $small --model $model --heads 2 --epochs 2 --ranks 2 --check --json $model.json
  check "... is that of one rank" json $model.json 'x["max_rel_error_vs_single"] < 1e-5'
done
check "another graph is classified" silent "$program" $small --epochs 2 --ranks 2 --unseen attached:90:4 \
  --json unseen.json
check "... all of it" json unseen.json 'x["unseen"]["seconds"] > 0 and 0 <= x["unseen"]["train"] <= 1'
check "what does not fit lies on the host" silent "$program" $small --epochs 3 --ranks 2 --memory 33KB --check \
  --json memory.json
check "... and moves as planned" json memory.json 'x["max_rel_error_vs_single"] < 1e-5 and
  all(m["arena_bytes"] <= 33000 and m["loaded_bytes"] == m["predicted_loaded_bytes"] > 0 and
  m["stored_bytes"] == m["predicted_stored_bytes"] for m in x["memory"])'
check "an epoch is simulated, and none trained" silent "$program" $small --epochs 0 --machine p100:1x4 --json sim.json
check "... for each division" json sim.json 'x["simulated"]["devices"] == 4 and x["epochs"] == [] and
  x["simulated"]["learned"]["epoch_s"] <= x["simulated"]["equal_edges"]["epoch_s"]'

complain() { complains 1 "$1" "$program" "${@:2}"; }
check "more ranks than vertices" complain '^train_graph: --ranks: 121 parts; expected at most as many as the 120' \
  $small --ranks 121
check "another run's checkpoint" complain '^train_graph: whole.weights: ' $small --layers 3 --resume whole.weights
check "no epoch left" complain 'has 9 epochs; expected less than --epochs 9' $small --epochs 9 --resume whole.weights
check "too little memory" complain 'expected [0-9]+ bytes' $small --memory 1KB
check "nothing to do" complain '^train_graph: --epochs: 0; expected an epoch at least, or --machine' $small --epochs 0
check "no such graph" complain '^train_graph: none' none
check "no learning" complain 'is the learning rate too large' attached:120:3 --rate 1e300 --epochs 9
# Adam at such a rate makes large steps of what rounding leaves.
check "losses that are not those of one rank" complain '^train_graph: --check: losses that differ .* 1e-05 at most' \
  attached:120:3 --features 12 --classes 3 --hidden 4 --heads 2 --model gat --rate 20 --epochs 200 --ranks 3 \
  --partition equal_edges --check --json differs.json
check "... are told all the same" json differs.json 'x["max_rel_error_vs_single"] > 1e-5 and len(x["epochs"]) == 200'
check "nowhere to write" complain 'nowhere' $small --json nowhere/result.json
check "no such model" complains 2 'model' "$program" $small --model mlp
check "no dropout of all" complains 2 'dropout' "$program" $small --dropout 1
finish
