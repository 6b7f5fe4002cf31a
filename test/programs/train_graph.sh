#!/usr/bin/env bash
# `train_graph`: its training, files and error messages.
# usage: train_graph.sh TRAIN_GRAPH SCRATCH_DIR PARTITION_GRAPH MPIRUN; the last ones may be -: then the checks that
# need them are left out
set -u
program=$1 scratch=$2 partition_graph=${3:--} mpirun=${4:--}
rm -rf "$scratch" && mkdir -p "$scratch"
. "$(dirname "$0")/../support/checks.sh"
cd "$scratch" || exit 1
export OMP_WAIT_POLICY=passive  # ranks share cores

python=${python:-/usr/bin/python3}
# same_losses FILE OTHER: as many epochs, whose losses differ by 1e-5 at most.
same_losses() {
  "$python" -c 'import json, sys
a, b = ([e["loss"] for e in json.load(open(f))["epochs"]] for f in sys.argv[1:])
sys.exit(not (len(a) == len(b) > 0 and all(abs(x - y) <= 1e-5 * abs(y) for x, y in zip(a, b))))' "$@"
}
differ() { ! same_losses "$@"; }

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
heads() { [ "$1" != gat ] || echo --heads 2; }
for model in gin sage_mean sage_max commnet fastgcn gat; do
  check "$model" silent "$program" $small --model $model $(heads $model) --epochs 2 --ranks 2 --check --json $model.json
  check "... is that of one rank" json $model.json 'x["max_rel_error_vs_single"] < 1e-5'
done
check "another graph is classified" silent "$program" $small --epochs 2 --ranks 2 --unseen attached:90:4 \
  --json unseen.json
check "... all of it" json unseen.json 'x["unseen"]["seconds"] > 0 and 0 <= x["unseen"]["train"] <= 1'
check "a checkpoint classifies, without another epoch" silent "$program" $small --epochs 0 --ranks 3 \
  --resume whole.weights --unseen attached:90:4 --json classified.json
check "... as the run did that wrote it" json classified.json 'x["epochs"] == [] and x["epoch_s"] is None and
  x["accuracy"] == json.load(open("whole.json"))["accuracy"] and x["first_epoch"] == 9 and len(x["partition"]) == 3'
check "the run goes on with another graph" silent "$program" $small --epochs 9 --ranks 2 --resume half.weights \
  --unseen attached:90:4 --json unseen.json
check "... to what a checkpoint finds there" json classified.json 'all(
  x["unseen"][k] == json.load(open("unseen.json"))["unseen"][k] for k in ("train", "validation", "test"))'
check "another seed" silent "$program" $small --epochs 1 --seed 2 --json seed.json
check "... draws another graph" json seed.json '(lambda y: y["edges"] != x["edges"])(json.load(open("whole.json")))'
check "what does not fit lies on the host" silent "$program" $small --epochs 3 --ranks 2 --memory 33KB --check \
  --json memory.json
check "... and moves as planned" json memory.json 'x["max_rel_error_vs_single"] < 1e-5 and
  all(m["arena_bytes"] <= 33000 and m["loaded_bytes"] == m["predicted_loaded_bytes"] > 0 and
  m["stored_bytes"] == m["predicted_stored_bytes"] for m in x["memory"])'
check "an epoch is simulated, and none trained" silent "$program" $small --epochs 0 --machine p100:1x4 --json sim.json
check "... for each division" json sim.json 'x["simulated"]["devices"] == 4 and x["epochs"] == [] and
  all(d["fits"] and d["held_bytes"] > 0 == d["loaded_bytes"] for d in x["simulated"].values() if isinstance(d, dict))'
check "... as with epochs before, for which features are drawn" silent "$program" $small --epochs 1 --machine p100:1x4 \
  --json trained.json
check "... to the same times" json trained.json 'x["simulated"] == json.load(open("sim.json"))["simulated"]'
check "an epoch with moves is simulated" silent "$program" $small --epochs 0 --machine p100:1x2 --memory 12KB \
  --offload 1MB/s --json moves.json
check "... which take their time" json moves.json 'all(d["loaded_bytes"] > 0 and d["stored_bytes"] > 0 and
  d["epoch_s"] >= (d["loaded_bytes"] + d["stored_bytes"]) / 1e6
  for d in x["simulated"].values() if isinstance(d, dict))'

# Two dense communities, which are the classes; features of a vertex alone say little of its class. ROC's files.
"$python" - <<'END'
import random, struct
for name, seed in (("town", 1), ("city", 2)):
    draw, n = random.Random(seed), 160
    label = [v % 2 for v in range(n)]
    edges = {(v, v) for v in range(n)}
    for u in range(n):
        for v in range(u):
            if draw.random() < (0.2 if label[u] == label[v] else 0.01):
                edges |= {(u, v), (v, u)}
    sources = [[u for u in range(n) if (u, v) in edges] for v in range(n)]
    ends = [sum(map(len, sources[:v + 1])) for v in range(n)]
    with open(name + ".add_self_edge.lux", "wb") as f:
        f.write(struct.pack("<IQ", n, ends[-1]) + struct.pack(f"<{n}Q", *ends))
        f.write(b"".join(struct.pack(f"<{len(s)}I", *s) for s in sources))
    with open(name + ".feats.bin", "wb") as f:
        for v in range(n):
            f.write(struct.pack("<8f", *(draw.random() + 0.3 * (c == label[v]) for c in range(8))))
    open(name + ".label", "w").write("".join(f"{c}\n" for c in label))
    open(name + ".mask", "w").write("".join("Train\n" if v < 40 else "Val\n" if v < 60 else "Test\n" for v in range(n)))
END
town="town --data $scratch --hidden 8 --rate 0.03 --partition equal_edges"
check "communities are learned" silent "$program" $town --epochs 80 --ranks 2 --unseen city --json learned.json
sed 's/Train/Test/' city.mask > city.all && mv city.all city.mask
check "a graph without training vertices is classified" silent "$program" $town --epochs 2 --ranks 2 --unseen city \
  --json classified.json
check "... on its test vertices" json classified.json 'x["unseen"]["train"] == 0 < x["unseen"]["test"]'
check "... of this graph, and of another that was not seen" json learned.json '
  x["accuracy"]["test"] > 0.9 and x["unseen"]["test"] > 0.9 and x["vertices"] == 160'
check "a graph that is drawn, beside one of a folder" silent "$program" $town --epochs 2 --unseen attached:90:4 \
  --features 8 --classes 2 --json drawn.json
check "... is classified" json drawn.json 'x["unseen"]["seconds"] > 0'
for ranks in 1 4; do
  check "$ranks ranks" silent "$program" $town --epochs 8 --ranks $ranks --json town$ranks.json
done
check "... train alike" same_losses town4.json town1.json
check "raw features" silent "$program" $town --epochs 8 --ranks 1 --raw-features --json raw.json
check "... are others" differ raw.json town1.json
check "another element" silent "$program" $town --epochs 8 --ranks 3 --element float64 --json wide.json
check "... has the losses of float32" same_losses wide.json town1.json
check "... but for rounding" json wide.json '[e["loss"] for e in x["epochs"]] !=
  [e["loss"] for e in json.load(open("town1.json"))["epochs"]]'
check "decay" silent "$program" $town --epochs 8 --ranks 2 --decay 0.1 --json decay.json
check "... changes all losses but the first" json decay.json '(lambda y: [a["loss"] == b["loss"] or
  abs(a["loss"] / b["loss"] - 1) < 1e-5 for a, b in zip(x["epochs"], y["epochs"])])(
  json.load(open("town1.json"))) == [True] + 7 * [False]'
if "$program" --help | grep -q metis; then
  for model in gcn fastgcn gat; do
    for ranks in 1 2 3; do
      check "METIS, $model, $ranks" silent "$program" town --data . --model $model $(heads $model) --hidden 8 \
        --epochs 5 --partition metis --ranks $ranks --json metis$ranks.json
    done
    check "... simulated" silent "$program" $small --model $model $(heads $model) --epochs 0 --partition metis \
      --machine p100:1x2 --json metis.json
    check "... as without its numbers" silent "$program" town --data . --model $model $(heads $model) --hidden 8 \
      --epochs 5 --json plain.json
    for ranks in 1 2 3; do
      check "... on $ranks" same_losses metis$ranks.json plain.json
    done
  done
fi
# Ranges of as many edges begin with the many vertices that have few on one rank, where products take most of the time.
check "ranges that begin badly" silent "$program" rmat:11:20000 --features 256 --hidden 32 --epochs 300 --ranks 2 \
  --repartition-every 2 --json skewed.json
check "... change" json skewed.json 'x["repartitions"] > 0'
"$program" $small --epochs 100000000 --every 3 --checkpoint every.weights >/dev/null 2>&1 &
endless=$!
for ((i = 0; i < 600; ++i)); do [ -s every.weights ] && break || sleep 0.1; done
kill -9 $endless && wait $endless 2>/dev/null
check "there is a checkpoint after every third epoch" silent "$program" $small --epochs 0 --resume every.weights \
  --json every.json
check "... of so many epochs" json every.json 'x["first_epoch"] > 0 and x["first_epoch"] % 3 == 0'
if [ "$mpirun" != - ]; then
  check "processes train" silent timeout --kill-after 10 120 "$mpirun" --oversubscribe --allow-run-as-root -np 2 \
    "$program" $town --epochs 8 --check --json mpi.json
  check "... it says so" json mpi.json '(x["comm"], x["ranks"]) == ("mpi", 2)'
  check "... to the losses of threads" same_losses mpi.json town1.json
fi

complain() { complains 1 "$1" "$program" "${@:2}"; }
check "too many ranks to classify" complain '^train_graph: --unseen: 3 parts; .* most as many as the 2' $small \
  --ranks 3 --unseen attached:2:1
check "more devices than vertices" complain '^train_graph: p100:1x4: 4 parts; .* most as many as the 3' \
  attached:3:2 --machine p100:1x4
check "memory of nothing" complain "^train_graph: --memory: '0'; expected a byte at least" $small --memory 0
check "too many edges" complain 'attached:100000:100000: too many edges; expected 2.31 at most' attached:100000:100000
check "more ranks than vertices" complain '^train_graph: --ranks: 121 parts; expected at most as many as the 120' \
  $small --ranks 121
check "another run's checkpoint" complain '^train_graph: whole.weights: ' $small --layers 3 --resume whole.weights
check "no epoch left" complain 'has 9 epochs; expected less than --epochs 9' $small --epochs 9 --resume whole.weights
check "too little memory" complain 'expected [0-9]+ bytes' $small --memory 1KB
check "too little memory to classify, told before any epoch" complain \
  '^train_graph: --unseen: memory plan: .* expected [0-9]+ bytes' \
  $small --memory 33KB --epochs 100000000 --unseen attached:5000:4
check "no rate of moves" complain \
  '^train_graph: --memory: no rate at which values move on --machine; expected --offload RATE' \
  $small --machine p100:1x2 --memory 33KB
check "a rate of nothing" complain '^train_graph: --offload: nothing that is simulated to move' $small --offload 1GB/s
check "no such machine" complain '^train_graph: .*none' $small --machine none
check "nothing to do" complain '^train_graph: --epochs: 0; expected an epoch at least, or --machine or --resume' \
  $small --epochs 0
check "nothing to classify with" complain '^train_graph: --epochs: 0; .* or --resume, for --unseen' $small --epochs 0 \
  --unseen attached:90:4 --machine p100:1x2
check "no epoch to write" complain '^train_graph: --epochs: 0; .* for --checkpoint' $small --epochs 0 \
  --resume whole.weights --checkpoint again.weights
# broken WHAT EXPRESSION ENDING PATTERN: the file of that ending has the bytes that python's expression makes of x.
broken() {
  rm -rf bad && mkdir bad && cp town.* bad/ && "$python" -c 'import sys, struct
x = bytearray(open(sys.argv[1], "rb").read())
open(sys.argv[1], "wb").write(eval(sys.argv[2]))' "bad/town$3" "$2"
  check "$1" complain "^train_graph: .*town$4" town --data bad
}
broken "a graph cut short" 'x[:-4]' .add_self_edge.lux '.add_self_edge.lux: [0-9]+ bytes; expected 12 and 8 for each'
broken "offsets that fall" 'x[:20] + struct.pack("<Q", 1) + x[28:]' .add_self_edge.lux \
  '.add_self_edge.lux: .*; expected'
broken "a source that is not a vertex" 'x[:-4] + struct.pack("<I", 160)' .add_self_edge.lux '.*160'
broken "features of another length" 'x[:-4]' .feats.bin '.feats.bin: 5116 bytes; expected float32 numbers in 160 rows'
broken "a feature that is not a number" 'x[:36] + struct.pack("<f", float("nan")) + x[40:]' .feats.bin \
  '.feats.bin: row 1, column 1: nan; expected a finite number'
broken "a label of no class" 'b"2000000000\n" + x[2:]' .label \
  ': vertex 0 has label 2000000000; expected a class below the 160 vertices'
broken "a label of no number" 'b"x" + x[1:]' .label '.label:1: x; expected a class'
broken "too few labels" 'x[2:]' .label ': 159 labels; expected one for each of the 160 vertices'
gzip -c town.add_self_edge.lux >packed.lux.gz
check "a compressed graph" silent "$program" packed.lux.gz --epochs 1 --json packed.json
check "... is read" json packed.json 'x["edges"] == json.load(open("town1.json"))["edges"]'
head -c 100 packed.lux.gz >cut.lux.gz
check "... but not a part of it" complain '^train_graph: cut.lux.gz: ' cut.lux.gz
if [ "$partition_graph" != - ]; then
  divide() { complains 1 "$1" "$partition_graph" "${@:2}"; }
  head -c 100 town.add_self_edge.lux >cut.lux
  check "no graph to divide" divide '^partition_graph: cut.lux: 100 bytes; expected 12 and 8 for each' cut.lux
  # Files cannot grow beyond 16 blocks, as on a full disk.
  full() { (trap '' XFSZ && ulimit -f 16 && "$partition_graph" "$@"); }
  check "a graph is kept" silent "$partition_graph" rmat:10:20000 --parts 2 --samples 5 --out kept.lux
  check "... and divided as a file" silent "$partition_graph" kept.lux --parts 2 --samples 5 --out again.lux
  check "... the same" cmp kept.lux again.lux
  echo before >full.lux
  check "a graph that does not fit" complains 1 '^partition_graph: .*full.lux' full rmat:10:20000 \
    --parts 2 --samples 5 --out full.lux
  check "... and what was there stays" grep -qx before full.lux
fi
check "no epoch to trace" complains 2 'trace: has an effect with an epoch at least' "$program" $small --epochs 0 \
  --machine p100:1x2 --trace trace.json
check "a hidden size that is nowhere" complains 2 'hidden: has an effect with --layers 2 or more' \
  "$program" attached:9:2 --layers 1 --hidden 7
if [ "$partition_graph" != - ]; then
  mkdir folder && "$partition_graph" attached:20:2 --out folder/g.lux >stdout
  check "no result over a graph of a folder" complain 'folder/g.lux: a graph of --data' g.lux --data folder \
    --json folder/g.lux
fi
check "no such graph" complain '^train_graph: none' none
check "no learning" complain 'is the learning rate too large' attached:120:3 --rate 1e300 --epochs 9
# Adam at such a rate makes large steps of what rounding leaves.
check "losses that are not those of one rank" complain '^train_graph: --check: losses that differ .* 1e-05 at most' \
  attached:120:3 --features 12 --classes 3 --hidden 4 --heads 2 --model gat --rate 20 --epochs 200 --ranks 3 \
  --partition equal_edges --check --json differs.json
check "... are told all the same" json differs.json 'x["max_rel_error_vs_single"] > 1e-5 and len(x["epochs"]) == 200'
check "nowhere to write" complain 'nowhere' $small --json nowhere/result.json
check "no such model" complains 2 'model' "$program" $small --model mlp
check "heads of what has none" complains 2 '--heads: has an effect with --model gat alone' "$program" $small --heads 4
check "draws of what draws nothing" complains 2 '--drawn: has an effect' "$program" $small --drawn 40
check "new ranges of what stays" complains 2 '--repartition-every: has an effect' "$program" $small \
  --partition equal_edges --repartition-every 4
check "columns of what has its own" complains 2 '--features: has an effect with a graph without data' "$program" cora \
  --features 4
check "a folder of what is drawn" complains 2 '--data: has an effect with a graph in a file' "$program" $small --data .
check "no dropout of all" complains 2 'dropout' "$program" $small --dropout 1
finish
