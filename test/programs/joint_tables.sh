#!/usr/bin/env bash
# A short run of bench/joint_tables.py: each table has its rows, and finished runs are not repeated.
# usage: joint_tables.sh SCRIPT PARALLELIZE MODEL.onnx SCRATCH_DIR
set -u
script=$1 parallelize=$2 model=$3 scratch=$4
rm -rf "$scratch" && mkdir -p "$scratch/onnx"
# shellcheck source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"
python=${python:-/usr/bin/python3}
cp "$model" "$scratch/onnx/small.onnx"
tables() { # tables TABLE...: of one small row each
  silent "$python" "$script" "$parallelize" "$@" --seconds 0.6 --results "$scratch/rows.jsonl" --nodes 1 \
    --onnx "$scratch/onnx" --samples batch
}
rows() { grep -c '^| [a-z]' "$scratch/stdout"; } # heads of tables begin with a letter, too

check 'the joint table' tables joint --models dlrm
cp "$scratch/stdout" "$scratch/joint"
check 'has a head and a row' test "$(rows)" = 2
check 'that says how many rows are lost' grep -qE '^1 rows, [01] of them where another is faster$' "$scratch/stdout"
check 'and is kept' test "$(wc -l <"$scratch/rows.jsonl")" = 1
check 'kinds one by one' tables monotone --models mlp
check 'have a row each' test "$(rows)" = 7
check 'the order of searches' tables order --models dlrm
check 'has a row' test "$(rows)" = 2
check 'the ablation' tables ablation --models dlrm
check 'has a row' test "$(rows)" = 2
check 'a file on two machines' tables real --models small
check 'has a row for each' test "$(rows)" = 3
check 'the time that searches need' tables times --models resnext50
check 'has a row' test "$(rows)" = 2
cp "$scratch/rows.jsonl" "$scratch/before"
check 'again' tables joint --models dlrm
check 'it is the same' cmp "$scratch/stdout" "$scratch/joint"
check 'and nothing ran' cmp "$scratch/rows.jsonl" "$scratch/before"
check 'what is not known' tables joint --models xdl --show
check 'is not shown' test "$(rows)" = 1
check 'an unknown table' complains 2 'invalid choice' "$python" "$script" "$parallelize" luck
finish
