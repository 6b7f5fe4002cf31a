#!/usr/bin/env bash
# `parallelize` on graphs of unusual form: a plan, or one line that says why there is none.
# usage: parallelize_odd.sh PARALLELIZE SCRATCH_DIR
set -u
parallelize=$1 scratch=$2
rm -rf "$scratch" && mkdir -p "$scratch"
# shellcheck source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"
python=${python:-/usr/bin/python3}

# model NAME GRAPH WEIGHTS: in the text form of ONNX; weights as NAME:ROWSxCOLUMNS,...
model() {
  "$python" -c 'import sys, onnx, onnx.parser
name, text, weights = sys.argv[1:]
graph = onnx.parser.parse_graph(text)
for w in filter(None, weights.split(",")):
    weight, sizes = w.split(":")
    rows, columns = map(int, sizes.split("x"))
    values = [0.5] * (rows * columns)
    graph.initializer.append(onnx.helper.make_tensor(weight, onnx.TensorProto.FLOAT, [rows, columns], values))
opset = onnx.helper.make_opsetid("", 17)
onnx.save(onnx.helper.make_model(graph, opset_imports=[opset]), name)' "$scratch/$1.onnx" "$2" "$3"
}
model batch 'm (float[3,5] x) => (float[3,7] y) { y = MatMul(x, w) }' w:5x7
model apart 'm (float[8,16] x, float[8,16] z) => (float[8,32] y, float[8,4] v) {
  y = MatMul(x, w)
  v = MatMul(z, u)
}' w:16x32,u:16x4
model sinks 'm (float[8,16] x) => (float[8,32] y, float[8,32] r, float[8,4] v) {
  y = MatMul(x, w)
  r = Relu(y)
  v = MatMul(r, u)
}' w:16x32,u:32x4
model bare 'm (float[8,16] x) => (float[8,16] y) { y = Relu(x) }' ''
model opaque 'm (float[8,16] x) => (float[8,4] v) { y = MatMul(x, w) r = Asinh(y) v = MatMul(r, u) }' w:16x32,u:32x4
model empty 'm (float[8,16] x) => (float[8,16] y) { y = Identity(x) }' ''

declare -A what=([batch]='a batch that no degree divides' [apart]='a graph of two parts'
  [sinks]='a graph of three outputs, one inside' [bare]='a graph without weights')
for name in batch apart sinks bare; do
  for search in 'unity' 'flexflow --max-proposals 20'; do
    # shellcheck disable=SC2086
    check "${what[$name]}, ${search%% *}" silent timeout 60 "$parallelize" "$scratch/$name.onnx" --machine p100:1x4 \
      --search $search --out "$scratch/$name" --json "$scratch/$name.json"
    check 'has a plan' json "$scratch/$name.json" \
      'x["strategies"][-1]["iteration_s"] > 0 and x["strategies"][-1]["out_of_memory"] == []'
    check 'which is written' test -s "$scratch/$name/plan.json"
  done
done
for search in unity flexflow; do
  check "an opaque operator in the middle, $search" complains 1 '[(]Asinh[)]: no derivative' \
    timeout 60 "$parallelize" "$scratch/opaque.onnx" --machine p100:1x4 --search $search
done
check 'a graph without operators' complains 1 'no operators; expected work to divide' \
  timeout 60 "$parallelize" "$scratch/empty.onnx" --machine p100:1x4 --search unity
for number in nan -1 1e10; do
  check "--beta $number" complains 2 "beta: '$number'; expected a number from 0 to 1000000000" \
    "$parallelize" zoo:lenet --machine p100:1x4 --search flexflow --beta "$number"
done
finish
