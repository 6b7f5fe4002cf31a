#!/usr/bin/env bash
# --report of every program that has it: a self-contained page, which a browser paints, if one is installed.
# usage: report.sh BIN_DIR PLAN RESOURCES SCRATCH_DIR
set -u
bin=$1 plan=$2 resources=$3 scratch=$4
rm -rf "$scratch" && mkdir -p "$scratch"
# shellcheck source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"
python=${python:-/usr/bin/python3}
# shellcheck source=../support/browser.sh
. "$(dirname "$0")/../support/browser.sh"

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
[[ -n $browser ]] || echo 'no browser here: pages were parsed, not looked at'
if [[ -x $bin/simulate ]]; then
  check 'a report that cannot be written' complains 1 'no_folder' \
    "$bin/simulate" "$plan" --report "$scratch/no_folder/x.html"
fi
finish
