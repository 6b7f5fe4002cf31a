#!/usr/bin/env bash
# --report of every program: a self-contained page, which a browser paints, if one is installed.
# usage: report.sh BIN_DIR PLAN RESOURCES SCRATCH_DIR
set -u
bin=$1 plan=$2 resources=$3 scratch=$4
rm -rf "$scratch" && mkdir -p "$scratch"
# shellcheck source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"
python=${python:-/usr/bin/python3}
# shellcheck source=../support/browser.sh
. "$(dirname "$0")/../support/browser.sh"
source=$(cd "$(dirname "$0")/../.." && pwd)

cat >"$scratch/page.py" <<'END'
# The page is XML behind its first line, loads nothing, and has what it must have.
import sys, xml.etree.ElementTree as tree
text = open(sys.argv[1]).read()
assert text.startswith("<!DOCTYPE html>\n")
page = tree.fromstring(text.split("\n", 1)[1])
for e in page.iter():
    assert e.tag not in ("script", "link", "iframe", "object"), e.tag
    assert all(not v.startswith(("http", "//")) for v in e.attrib.values()), e.attrib
    assert e.tag != "img" or e.attrib["src"].startswith("data:image/svg+xml;base64,")
shown = " ".join(page.itertext())
for word in sys.argv[2:]:
    assert word in shown, word
END

report() { # NAME WORDS... -- COMMAND...
  local name=$1 words=()
  shift
  while [[ $1 != -- ]]; do
    words+=("$1") && shift
  done
  shift
  [[ -x $bin/$1 ]] || return
  check "$name reports" silent "$bin/$1" "${@:2}" --report "$scratch/$name.html"
  check "$name: a page" silent "$python" "$scratch/page.py" "$scratch/$name.html" "${words[@]}"
  if [[ -n $browser ]]; then
    check "$name: a browser paints it" painted "$scratch/$name.html" "${colours:-3}"
  fi
}

report simulate 'Timeline' 'Memory' 'Critical path' -- simulate "$plan"
colours=0 report explain_plan 'best other one' 'conv2d 3' -- explain_plan "$plan"
report parallelize 'Time and memory' 'Timeline' 'data' 'flexflow' 'What each division gains' -- \
  parallelize zoo:lenet --machine p100:1x2 --max-proposals 100
report unity 'Time and memory' 'Both graphs' 'best other one' -- \
  parallelize 'zoo:mlp?form=fig1' --machine summit:1x2 --search unity --baselines none
report diff_plans 'What differs' 'Both plans are the same' 'Timeline' -- diff_plans "$plan" "$plan"
report optimize 'What each rule gained' 'Both graphs' -- optimize 'zoo:bert?layers=1' --max-expansions 50
report plan_memory 'Loaded from the host' 'lru' -- plan_memory 'zoo:lenet?batch=32' --limit 2MB
report fuse 'The search' 'no_fusion' 'disco' -- fuse zoo:lenet --machine 1080ti:1x2 --budget 1s
report distribute 'Trials of the search' 'all_reduce' -- \
  distribute zoo:lenet --resources "$resources" --strategy auto --trials 20
report train 'Losses' 'The last step' 'rank 1 computes' -- train "$plan" --steps 3
report train_graph 'Losses' 'Ranges of vertices' 'The last epoch' 'simulated' -- \
  train_graph rmat:8:1000 --epochs 3 --ranks 2 --machine p100:1x2
small='zoo:mlp?layers=2&hidden=16&batch=8'
colours=1 report run_model 'Time of a run' 'Both graphs' 'linear' -- \
  run_model "$small" --backend reference --against "$small"
report calibrate 'GFLOP/s' 'bandwidth of the fitted times' 'all_gather' -- calibrate --backend reference \
  --stream-bytes 65536 --ranks 2 --largest-exchange 65536 --out "$scratch/machine.json"
{
  echo collective,gpus,size_mb,time_ms
  for size in {1..40}; do
    echo "all_reduce,2,$size,$size"
  done
} >"$scratch/times.csv"
colours=1 report collectives 'Mean errors' 'other sizes' 'all_reduce' -- \
  calibrate --collectives "$scratch/times.csv" --out "$scratch/links.json"
colours=2 report measure_kernels 'as long' 'median of fused / alone' -- \
  measure_kernels "$small" --samples 40 --seconds 0.0001 --out "$scratch/kernels.bin"
report train_estimator 'best validation error' 'sum_of_parts' -- \
  train_estimator "$scratch/kernels.bin" --epochs 3 --hidden 16 --layers 1 --out "$scratch/estimator.bin"
colours=2 report fit_kernels 'a roofline' 'layer_norm' 'H100' -- fit_kernels "$source/test/data"
colours=1 report verify_rules 'Properties that proofs use' 'refuted' 'proved' -- \
  verify_rules "$source/test/support/verify_me.rules"
colours=1 report generate_rules 'What each step leaves' 'classes of equal terms' 'proved' -- \
  generate_rules --ops matrix --max-ops 2
colours=1 report generate_parallel 'Terms by vocabulary' 'do not follow from simpler ones' -- \
  generate_rules --parallel --max-ops 2
colours=0 report derive_rules 'Rules derived of' 'proved' -- generate_rules --derive conv2d:iw,relu:i --max-ops 2
report partition_graph 'learned cost' 'equal edges' 'Each part' -- \
  partition_graph rmat:12:60000 --parts 4 --width 16 --samples 20
report export_plan 'What is written' 'unity_plan.apply' -- \
  export_plan "$source/examples/plans/mlp_p100_2x4.json" --to pytorch --out "$scratch/plan.py"
colours=0 report export_statement 'tensor-model-parallel-size' -- export_plan \
  megatron:t=8,p=8,d=8,micro=1,batch=512,interleave=2,sp,zero=1 --to megatron --out "$scratch/flags.txt"
report export_onnx 'What ONNX does not say' -- \
  export_plan "$source/examples/plans/mlp_p100_2x4.json" --to onnx --out "$scratch/plan.onnx"
for page in "$source"/docs/programs/*.md; do
  name=$(basename "$page" .md)
  [[ $name == index ]] || check "$name has --report" grep -q '^| `--report' "$page"
done
[[ -n $browser ]] || echo 'no browser here: pages were parsed, not looked at'
if [[ -x $bin/simulate ]]; then
  check 'a report that cannot be written' complains 1 'no_folder' \
    "$bin/simulate" "$plan" --report "$scratch/no_folder/x.html"
fi
finish
