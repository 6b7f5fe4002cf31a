#!/usr/bin/env bash
# Test accuracy of graph neural networks on citation graphs, over ten seeds: of the last epoch, by the mean and its
# standard deviation. Settings are those of the papers where these give them.
# usage: graph_accuracy.sh BIN_DIR DATA_DIR [SEEDS]
set -euo pipefail
bin=$1 data=$2 seeds=${3:-10}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export OMP_WAIT_POLICY=passive

run() { # run GRAPH NAME FLAGS...
  local graph=$1 name=$2
  shift 2
  for seed in $(seq "$seeds"); do
    "$bin/train_graph" "$graph" --data "$data" --seed "$seed" --json "$out/$seed.json" "$@" >/dev/null
  done
  python3 - "$graph" "$name" "$seeds" "$out" <<'END'
import json, statistics, sys
graph, name, seeds, out = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
all = [json.load(open(f"{out}/{s + 1}.json")) for s in range(seeds)]
test = [100 * x["accuracy"]["test"] for x in all]
spread = statistics.stdev(test) if seeds > 1 else 0
print(f"{graph:10}{name:12}{statistics.mean(test):8.1f} +- {spread:.1f}   "
      f"{1e3 * statistics.median(x['epoch_s'] for x in all):.1f} ms an epoch", flush=True)
END
}

for graph in cora citeseer; do
  run "$graph" gcn --model gcn --epochs 200 --hidden 16 --dropout 0.5 --rate 0.01 --decay 5e-4
  run "$graph" sage_mean --model sage_mean --epochs 200 --hidden 16 --dropout 0.5 --rate 0.01 --decay 5e-4
  run "$graph" sage_max --model sage_max --epochs 200 --hidden 16 --dropout 0.5 --rate 0.01 --decay 5e-4
  run "$graph" gin --model gin --epochs 200 --hidden 64 --dropout 0.5 --rate 0.01 --decay 5e-4
  run "$graph" commnet --model commnet --epochs 200 --hidden 16 --dropout 0.5 --rate 0.01 --decay 5e-4
  run "$graph" fastgcn --model fastgcn --epochs 200 --hidden 16 --dropout 0.5 --rate 0.01 --decay 5e-4 --drawn 400
  run "$graph" gat --model gat --epochs 200 --hidden 8 --heads 8 --dropout 0.6 --rate 0.005 --decay 5e-4
done
