#!/usr/bin/env bash
# `replay`: its output on traces is consistent; bad traces get one line, and no file is written.
# usage: replay.sh REPLAY TRACE_FOLDER SCRATCH_DIR TRAIN MAKE_PLAN; the last ones may be -: then the checks that need
# them are left out
set -u
replay=$1 traces=$2 scratch=$3 train=${4:--} make_plan=${5:--}
rm -rf "$scratch" && mkdir -p "$scratch"
# shellcheck source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"
python=${python:-/usr/bin/python3}

check 'an archive of traces is replayed' silent "$replay" "$traces/ddp_2.tar.gz" --json "$scratch/a.json" \
  --trace "$scratch/a.trace" --report "$scratch/a.html"
for line in '5 steps' '^rank 1 ' '^critical path' 'waited for dependency'; do
  check "the text has $line" grep -qE -- "$line" "$scratch/stdout"
done
check 'the JSON has what is documented' json "$scratch/a.json" '
  {"iteration", "steps", "ranks", "critical_path", "events", "seconds", "stragglers"} <= set(x)
  and len(x["steps"]) == 5 and [r["name"] for r in x["ranks"]] == ["rank 0", "rank 1"]
  and all({"measured_s", "replayed_s", "error"} <= set(s) for s in x["steps"]) and "what_if" not in x'
check 'errors are what they say' json "$scratch/a.json" '
  all(abs(s["error"] - (s["replayed_s"] / s["measured_s"] - 1)) < 1e-9 for s in x["steps"] + x["ranks"])'
check 'ranks replay within 5%' json "$scratch/a.json" 'all(abs(r["error"]) < 0.05 for r in x["ranks"])'
check 'busy and idle add up' json "$scratch/a.json" '
  all(abs(r["busy_s"] + sum(r["idle_s"].values()) - r["replayed_s"]) < 1e-9 for r in x["ranks"])'
check 'the critical path is as long as the iteration' json "$scratch/a.json" '
  abs(sum(s["time_s"] for s in x["critical_path"]) - x["iteration"]["replayed_s"]) < 1e-9'
check 'the trace is JSON with both timelines' json "$scratch/a.trace" '
  {e["args"]["name"].split(", ")[1].split()[0] for e in x["traceEvents"] if e["name"] == "process_name"}
  == {"step", "replayed"}'
check 'the page needs no network' test "$(grep -c 'http' "$scratch/a.html")" = 0
check 'it is replayed again' silent "$replay" "$traces/ddp_2.tar.gz" --json "$scratch/b.json" \
  --trace "$scratch/b.trace" --report "$scratch/b.html"
for kind in trace html; do
  check "its $kind is the same" cmp "$scratch/a.$kind" "$scratch/b.$kind"
done

# shellcheck source=../support/browser.sh
. "$(dirname "$0")/../support/browser.sh"
if [[ -n $browser ]]; then
  # More tasks than a JavaScript call takes arguments, and more rows than a canvas may be high.
  "$python" - "$scratch/many.json" <<'END'
import json, sys
events = []
for step in range(3):
    at = step * 1000000
    events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1, "ts": at,
                   "dur": 900000})
    events += [{"ph": "X", "cat": "cpu_op", "name": f"op {i % 7}", "pid": 1, "tid": thread, "ts": at + 9 + i * 15000,
                "dur": 9000} for thread in range(1, 1701) for i in range(45)]
json.dump({"traceEvents": events, "distributedInfo": {"rank": 0, "world_size": 1}}, open(sys.argv[1], "w"))
END
  check 'a trace of many tasks is replayed' silent "$replay" "$scratch/many.json" --report "$scratch/many.html"
  check 'a browser lays it out' silent browse --dump-dom "file://$scratch/many.html"
  check 'with rows up to the end' grep -q 'id="space" style="height: 680[0-9][0-9]px' "$scratch/stdout"
  check 'and paints it' painted "$scratch/many.html" 1
  check 'timelines beside each other are painted, too' painted "$scratch/a.html" 3
fi

mkdir "$scratch/files" && tar -xzf "$traces/ddp_2.tar.gz" -C "$scratch/files"
check 'the same from plain files, in any order' silent "$replay" "$scratch/files/rank1.json" \
  "$scratch/files/rank0.json" --json "$scratch/plain.json"
check 'is the same' "$python" -c 'import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
sys.exit(a["steps"] != b["steps"] or a["ranks"] != b["ranks"])' "$scratch/a.json" "$scratch/plain.json"
check 'one rank of two replays alone' silent "$replay" "$scratch/files/rank1.json" --json "$scratch/alone.json"
check 'and waits as it did' json "$scratch/alone.json" 'len(x["ranks"]) == 1 and abs(x["iteration"]["error"]) < 0.05'

"$python" -c 'import json, sys
x = json.load(open(sys.argv[1]))
for e in x["traceEvents"]:
    if "ts" in e: e["ts"] += 5000
json.dump(x, open(sys.argv[2], "w"))' "$scratch/files/rank1.json" "$scratch/files/shifted.json"
check 'a clock 5 ms ahead' silent "$replay" "$scratch/files/rank0.json" "$scratch/files/shifted.json" \
  --json "$scratch/shifted.json"
check 'is found within 200 us' json "$scratch/shifted.json" 'abs(x["ranks"][1]["offset_s"] + 5e-3) < 200e-6'
check 'clocks are taken as stated' silent "$replay" "$scratch/files/rank0.json" "$scratch/files/shifted.json" \
  --clocks stated --json "$scratch/stated.json"
check 'where that is wanted' json "$scratch/stated.json" 'x["ranks"][1]["offset_s"] == 0'

for change in bandwidth=0.1 latency=2 device=2 workers=8 bucket=100KB bucket=25MB algorithm=tree operator=aten::addmm \
  bandwidth=0.5,bucket=5MB; do
  check "what if $change" silent "$replay" "$traces/ddp_2.tar.gz" --what-if "$change" --json "$scratch/if.json"
  check 'is told' json "$scratch/if.json" "x['what_if']['changes'] == '$change' and x['what_if']['iteration_s'] > 0"
done
check 'devices twice as fast' silent "$replay" "$traces/ddp_2.tar.gz" --what-if device=2 --json "$scratch/if.json"
check 'make it faster' json "$scratch/if.json" '1.2 < x["what_if"]["speedup"] <= 2'
check 'links a tenth as fast' silent "$replay" "$traces/ddp_2.tar.gz" --what-if bandwidth=0.1 --json "$scratch/if.json"
check 'make it slower' json "$scratch/if.json" 'x["what_if"]["speedup"] < 0.95'

# refuses WHAT PATTERN ARGUMENT...
refuses() {
  local what=$1 pattern=$2
  shift 2
  check "$what" complains 1 "$pattern" "$replay" "$@" --json "$scratch/none.json" --trace "$scratch/none.trace" \
    --report "$scratch/none.html"
  check 'and nothing is written' test -z "$(find "$scratch" -name 'none*')"
}
head -c 5000 "$scratch/files/rank0.json" >"$scratch/cut.json"
head -c 20000 "$traces/ddp_2.tar.gz" >"$scratch/cut.tar.gz"
printf '{"traceEvents": []}' >"$scratch/empty.json"
printf '{"a": 1}' >"$scratch/other.json"
sed 's/"dur":\([0-9]\)/"dur":-\1/' "$scratch/files/rank0.json" >"$scratch/negative.json"
sed 's/ProfilerStep#/ProfilerStep#1000/g' "$scratch/files/rank1.json" >"$scratch/other_steps.json"
sed 's/"world_size":2/"world_size":4/' "$scratch/files/rank1.json" >"$scratch/other_job.json"
refuses 'a file that is not there' 'nowhere.json: cannot be read' "$scratch/nowhere.json"
refuses 'a trace cut short' 'cut.json: ends at byte 5000 within its JSON; expected a whole trace' "$scratch/cut.json"
refuses 'an archive cut short' 'cut.tar.gz: cannot be unpacked' "$scratch/cut.tar.gz"
refuses 'a trace of nothing' 'empty.json: no event' "$scratch/empty.json"
refuses 'another file' 'other.json: JSON without a list of events' "$scratch/other.json"
refuses 'a negative duration' 'negative.json, event [0-9]+: a duration of -.* us; expected 0 at least' \
  "$scratch/negative.json"
refuses 'a rank twice' 'rank 0, which .*rank0.json has, too' "$scratch/files/rank0.json" "$scratch/files/rank0.json"
refuses 'other steps' 'none of the steps of' "$scratch/files/rank0.json" "$scratch/other_steps.json"
refuses 'another job' 'a job of 4 ranks; expected one of 2' "$scratch/files/rank0.json" "$scratch/other_job.json"
check 'it is optimized' silent "$replay" "$traces/ddp_2.tar.gz" --optimize --budget 2s --json "$scratch/o.json" \
  --buckets "$scratch/buckets.json" --report "$scratch/o.html"
check 'and is not slower' json "$scratch/o.json" '
  x["optimized"]["iteration_s"] <= x["optimized"]["before_s"] and x["optimized"]["speedup"] >= 1
  and x["optimized"]["before_s"] == x["iteration"]["replayed_s"] and x["optimized"]["seconds"] < 4
  and {p["name"] for p in x["optimized"]["passes"]} >= {"operator_fusion", "tensor_fusion", "tensor_partition"}'
check 'each gradient is in one bucket' json "$scratch/buckets.json" '
  sorted(g for b in x["gradients"] for g in b) == list(range(sum(map(len, x["gradients"]))))
  and len(x["bytes"]) == len(x["gradients"]) and x["bucket_cap_mb"] > 0'
check 'by a beam, too' silent "$replay" "$traces/ddp_2.tar.gz" --optimize --search beam --budget 1s
refuses 'a pass that is none' "pass: 'magic'; expected operator_fusion" "$traces/ddp_2.tar.gz" --optimize --passes magic
refuses 'a limit where nothing tells memory' 'traces: nothing about memory' "$traces/ddp_2.tar.gz" --optimize \
  --memory 1GB
refuses 'a budget of no search' 'expected --optimize with them' "$traces/ddp_2.tar.gz" --budget 5s
refuses 'a plan with buckets of none' 'expected --plan besides' "$traces/ddp_2.tar.gz" --optimize --plan-out p.json
refuses 'a plan with buckets that are not searched' 'expected --optimize with them' "$traces/ddp_2.tar.gz" \
  --plan "$traces/planned_2.json" --plan-out p.json
refuses 'a cost of no plan' 'expected --plan besides' "$traces/ddp_2.tar.gz" --cost kernels
refuses 'a plan that is not there' 'nowhere.json: cannot be read' "$traces/ddp_2.tar.gz" --plan "$scratch/nowhere.json"
refuses 'a plan of other ranks' 'a plan for 2 devices, and traces of a job of 4 ranks' "$traces/ddp_4.tar.gz" \
  --plan "$traces/planned_2.json"
refuses 'flags of an optimizer that does not run' 'flags of the optimizer; expected --optimize' \
  "$traces/ddp_2.tar.gz" --passes tensor_fusion
refuses 'a change that is none' "what-if: 'magic=2'; expected bandwidth=" "$traces/ddp_2.tar.gz" --what-if magic=2
refuses 'workers that are too many' "workers: '99999999'; expected 16777216 workers at most" \
  "$traces/ddp_2.tar.gz" --what-if workers=99999999
refuses 'a link without bytes' "link: '0'; expected a byte at least" "$traces/ddp_2.tar.gz" --link 0
refuses 'a factor that is none' "what-if bandwidth: 'much'" "$traces/ddp_2.tar.gz" --what-if bandwidth=much
refuses 'an algorithm that is none' 'expected ring, tree or halving_doubling' "$traces/ddp_2.tar.gz" \
  --what-if algorithm=star
refuses 'an operator that is not there' "no operator 'x'" "$traces/ddp_2.tar.gz" --what-if operator=x
check 'no trace is bad usage' complains 2 'FILE' "$replay"

check 'a job that ran a plan, beside it' silent "$replay" "$traces/planned_2.tar.gz" --plan "$traces/planned_2.json" \
  --json "$scratch/planned.json" --report "$scratch/planned.html" --trace "$scratch/planned.trace"
check 'says so' grep -qE '^computing, forward +[0-9.]+ +[0-9.]+$' "$scratch/stdout"
# gloo has no all-to-all, so DTensor gathers; the loss, which is not in the plan, gathers twice.
check 'collectives are those of the plan' json "$scratch/planned.json" '
  {c["kind"]: (c["recorded"], c["planned"]) for c in x["plan"]["collectives"]}
  == {"all_reduce": (2, 2), "reduce_scatter": (2, 2), "all_gather": (10, 2), "all_to_all": (0, 6)}'
check 'times are those of replay and simulation' json "$scratch/planned.json" '
  x["plan"]["replayed"]["iteration_s"] == x["iteration"]["replayed_s"] and x["plan"]["simulated"]["between_s"] == 0
  and 0 < sum(x["plan"]["simulated"]["computing_s"].values()) <= x["plan"]["simulated"]["iteration_s"]
  and all(0 < x["plan"][k]["communicating_s"] < x["plan"][k]["iteration_s"] for k in ("replayed", "simulated"))'
check 'the trace has the simulated timeline' json "$scratch/planned.trace" '
  sum(e["name"] == "process_name" and "simulated" in e["args"]["name"] for e in x["traceEvents"]) == 3'

check 'traces with memory' silent "$replay" "$traces/ddp_2_memory.tar.gz" --json "$scratch/memory.json"
check 'say what is needed' grep -qE '^rank 1 needs [0-9.]+ MB of memory at most' "$scratch/stdout"
check 'as the profiler counted' json "$scratch/memory.json" '
  [r["memory_bytes"] for r in x["ranks"]] == [2631728, 2631728]'
check 'others do not tell' json "$scratch/a.json" '[r["memory_bytes"] for r in x["ranks"]] == [None, None]'

if [ "$train" != - ]; then
  # What ranks hold is what their trace says they need, and the gaps and roundings of the arena.
  check 'a plan of another model' silent "$make_plan" 'zoo:mlp?layers=1&hidden=8&batch=4' p100:1x2 data \
    "$scratch/other.json"
  for model in 'zoo:lenet?batch=16' 'zoo:mlp?layers=4&hidden=256&batch=32' \
    'zoo:dlrm?form=ae&batch=32&hidden=16&vocab=500' \
    'zoo:bert_large?layers=1&hidden=64&heads=2&seq=16&vocab=100&batch=4'; do
    for how in data model; do
      check "$model ($how)" silent "$make_plan" "$model" p100:1x2 "$how" "$scratch/plan.json"
      check 'is trained' silent timeout 120 "$train" "$scratch/plan.json" --steps 6 --trace "$scratch/own.trace" \
        --trace-steps 4 --json "$scratch/own.json"
      check 'its steps are replayed' silent "$replay" "$scratch/own.trace" --json "$scratch/own_replayed.json"
      check 'each by the others' json "$scratch/own_replayed.json" '
        [s["number"] for s in x["steps"]] == [2, 3, 4, 5]'
      check 'with the memory that ranks hold, within 5%' json "$scratch/own_replayed.json" "
        all(abs(r['memory_bytes'] / m['bytes'] - 1) < 0.05 and r['memory_bytes'] > 1.01 * m['kept_bytes']
            for r, m in zip(x['ranks'], json.load(open('$scratch/own.json'))['memory']))"
      if [ "$how" = data ]; then
        check 'recomputation is predicted' silent "$replay" "$scratch/own.trace" --optimize --memory 1KB \
          --passes tensor_fusion,recomputation --json "$scratch/recomputed.json" --plan "$scratch/plan.json" \
          --plan-out "$scratch/bucketed.json"
        refuses 'it for this trace' "no weight '" "$scratch/own.trace" --optimize --passes operator_fusion --budget 1s \
          --plan "$scratch/other.json" --plan-out "$scratch/refused.json"
        check 'ranks train with the buckets that were found, and recompute' silent timeout 120 "$train" \
          "$scratch/bucketed.json" --steps 3 --recompute products --json "$scratch/own_recomputed.json"
        check 'their memory is as predicted, within 5%' json "$scratch/recomputed.json" "
          abs(min(t['peak_bytes'] for t in x['optimized']['tried'] + [{'peak_bytes':
              x['optimized']['memory']['before_bytes']}])
              / max(m['bytes'] for m in json.load(open('$scratch/own_recomputed.json'))['memory']) - 1) < 0.05"
      fi
    done
  done
fi
finish
