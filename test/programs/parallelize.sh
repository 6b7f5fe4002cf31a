#!/usr/bin/env bash
# `parallelize`: its output is consistent and agrees with `simulate`; bad input gets one line, and no file is written.
# usage: parallelize.sh PARALLELIZE SIMULATE SCRATCH_DIR
set -u
parallelize=$1 simulate=$2 scratch=$3
rm -rf "$scratch" && mkdir -p "$scratch"
# shellcheck source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"
python=${python:-/usr/bin/python3}
lenet=(zoo:lenet --machine p100:1x4 --search flexflow)

# What the JSON has.
check 'it searches' silent timeout 120 \
  "$parallelize" "${lenet[@]}" --max-proposals 600 --seed 1 --out "$scratch/a" --json "$scratch/a.json"
cp "$scratch/stdout" "$scratch/text"
for line in 'zoo:lenet on p100:1x4 \(4 devices\)' '^(data|model|expert|flexflow) +[0-9.]+ .* best$' \
  '^search: [0-9]+ proposals, [0-9]+ accepted'; do
  check "the text has $line" grep -qE -- "$line" "$scratch/text"
done
check 'the JSON has what is documented' json "$scratch/a.json" '
  set(x) == {"model", "machine", "devices", "strategies", "left_out", "best", "compute_bound_s", "plan", "search"}
  and x["model"] == "zoo:lenet" and x["machine"] == "p100:1x4" and x["devices"] == 4 and x["plan"] == "plan.json"
  and [s["name"] for s in x["strategies"]] == ["data", "model", "expert", "flexflow"]
  and all(s["schedule"] is None and s["chunks"] == 1 for s in x["strategies"])
  and all(set(s) == {"name", "iteration_s", "compute_s", "communication_s", "communication_bytes",
                     "communication_elements", "simulated_devices", "memory_peak_bytes", "out_of_memory",
                     "offloaded", "stages", "microbatches", "schedule", "chunks", "recomputed_operators",
                     "sharded_weights"} and s["simulated_devices"] == "all" for s in x["strategies"])
  and set(x["search"]) == {"proposals", "accepted", "seconds", "stop_reason"}'
check 'its numbers agree' json "$scratch/a.json" '
  all(0 < s["iteration_s"] <= s["compute_s"] + s["communication_s"] + 100 * 92e-6  # collectives that start
      and s["iteration_s"] >= s["compute_s"] / x["devices"]
      and s["communication_bytes"] > 0 and s["communication_elements"] == s["communication_bytes"] // 4
      and 0 < s["memory_peak_bytes"] < 16e9 and s["out_of_memory"] == [] for s in x["strategies"])
  and all(0 < x["compute_bound_s"] <= s["iteration_s"] for s in x["strategies"])
  and 0 < x["search"]["accepted"] < x["search"]["proposals"] <= 600 and x["search"]["seconds"] > 0
  and x["search"]["stop_reason"] in ("expansions", "converged")'
check 'best is the fastest, and the search is no slower than what it began with' json "$scratch/a.json" '
  (lambda t: t[x["best"]] == min(t.values()) and t["flexflow"] <= min(t["data"], t["expert"]))(
  {s["name"]: s["iteration_s"] for s in x["strategies"]})'
check 'samples are those of all devices' grep -q '"size":256' "$scratch/a/strategy.json"

# What it writes.
check 'the picture is XML' silent is_svg "$scratch/a/strategy.svg"
check 'the plan is simulated' silent "$simulate" "$scratch/a/plan.json" --json "$scratch/simulated.json"
cat >"$scratch/agree.py" <<'END'
import json, sys
found, simulated = json.load(open(sys.argv[1])), json.load(open(sys.argv[2]))
best = next(s for s in found["strategies"] if s["name"] == found["best"])
assert simulated["iteration_s"] == best["iteration_s"], (simulated["iteration_s"], best["iteration_s"])
assert max(d["peak_bytes"] for d in simulated["devices"]) == best["memory_peak_bytes"]
assert abs(sum(d["busy_s"] for d in simulated["devices"]) - best["compute_s"]) < 1e-9
END
check 'and takes as long, with the same memory' silent \
  "$python" "$scratch/agree.py" "$scratch/a.json" "$scratch/simulated.json"

# The same again.
check 'it searches again, on two threads' silent timeout 120 \
  "$parallelize" "${lenet[@]}" --max-proposals 600 --seed 1 --threads 2 --out "$scratch/b" --json "$scratch/b.json"
check 'its files are the same' diff -r "$scratch/a" "$scratch/b"
check 'and so is its JSON, but for the time' "$python" -c '
import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
del a["search"]["seconds"], b["search"]["seconds"]
sys.exit(a != b)' "$scratch/a.json" "$scratch/b.json"
check 'another seed' silent timeout 120 \
  "$parallelize" "${lenet[@]}" --max-proposals 600 --seed 2 --json "$scratch/c.json"
check 'finds another way, and no plan is written' "$python" -c '
import json, sys
a, c = (json.load(open(f)) for f in sys.argv[1:])
same = a["search"]["accepted"] == c["search"]["accepted"] and a["strategies"] == c["strategies"]
sys.exit(same or c["plan"] is not None)' "$scratch/a.json" "$scratch/c.json"

# Limits.
for most in 0 7 150; do
  check "at most $most proposals" silent \
    "$parallelize" "${lenet[@]}" --max-proposals $most --patience 1 --json "$scratch/most.json"
  check 'are made' json "$scratch/most.json" \
    "x['search']['proposals'] <= $most and x['search']['stop_reason'] == 'expansions'"
done
check 'at most 30 prices of a beam' silent \
  "$parallelize" "${lenet[@]}" --algorithm beam --max-proposals 30 --json "$scratch/most.json"
check 'are looked at' json "$scratch/most.json" 'x["search"]["proposals"] <= 30'
check 'a budget of time' silent timeout 60 \
  "$parallelize" "${lenet[@]}" --budget 300ms --patience 1 --json "$scratch/most.json"
check 'is kept' json "$scratch/most.json" 'x["search"]["stop_reason"] == "time" and 0.05 < x["search"]["seconds"] < 10'

# Strategies from files.
check 'a strategy from a file' silent \
  "$parallelize" "${lenet[@]}" --max-proposals 40 --strategy "$scratch/a/strategy.json" --json "$scratch/given.json"
check 'is compared, and what the search begins with' "$python" -c '
import json, sys
a, g = (json.load(open(f)) for f in sys.argv[1:3])
t = {s["name"]: s["iteration_s"] for s in g["strategies"]}
best = next(s["iteration_s"] for s in a["strategies"] if s["name"] == a["best"])
sys.exit(not (t[sys.argv[3]] == best and t["flexflow"] <= best))' \
  "$scratch/a.json" "$scratch/given.json" "$scratch/a/strategy.json"

# Machines from files.
# change KIND NAME STATEMENT: of python, about x: the machine, or the strategy with the configuration
# c of its first operator.
change() {
  "$python" -c 'import json, sys
x = json.load(open(sys.argv[1])); x = x["machine"] if sys.argv[3] == "machine" else x
t = x.get("topology"); c = x.get("strategy", [None])[0]; exec(sys.argv[4]); json.dump(x, open(sys.argv[2], "w"))' \
    "$scratch/a/$([ "$1" = machine ] && echo plan || echo strategy).json" "$scratch/$2.json" "$1" "$3"
}
change machine good 'pass'
check 'a machine from a file' silent \
  "$parallelize" zoo:lenet --machine "$scratch/good.json" --max-proposals 600 --seed 1 --json "$scratch/d.json"
check 'is the same machine' "$python" -c '
import json, sys
a, d = (json.load(open(f)) for f in sys.argv[1:])
sys.exit(a["strategies"] != d["strategies"])' "$scratch/a.json" "$scratch/d.json"
change machine small 'x["devices"][0]["memory_bytes"] = 2000000'
check 'a machine without enough memory' silent \
  "$parallelize" zoo:lenet --machine "$scratch/small.json" --max-proposals 200 \
  --out "$scratch/small" --json "$scratch/s.json"
check 'gets what does not fit told, with the device and the bytes' \
  grep -qE '^flexflow does not fit: n0/gpu[0-3] needs [0-9]+ bytes more than its 2000000' "$scratch/stdout"
check 'also in the JSON' json "$scratch/s.json" '
  all(s["out_of_memory"] and max(e["bytes_over"] for e in s["out_of_memory"]) == s["memory_peak_bytes"] - 2000000
      and all(e["device"].startswith("n0/gpu") for e in s["out_of_memory"]) for s in x["strategies"])'

# Devices that have less memory than any strategy takes, but more than any operator.
deep='zoo:mlp?layers=12&hidden=64&batch=512'
"$parallelize" "$deep" --machine p100:1x2 --max-proposals 0 --out "$scratch/deep" >/dev/null
"$python" -c 'import json, sys
m = json.load(open(sys.argv[1]))["machine"]; m["devices"][0]["memory_bytes"] = 2000000
json.dump(m, open(sys.argv[2], "w"))' "$scratch/deep/plan.json" "$scratch/scant.json"
for rate in 12 0.1; do
  check "at $rate GB/s all fits with moves to the host" silent "$parallelize" "$deep" --machine "$scratch/scant.json" \
    --max-proposals 100 --seed 1 --offload "${rate}GB/s" --json "$scratch/offload$rate.json"
done
check 'and says so' grep -qE '^data fits with 0[.][0-9]+ MB loaded from the host' "$scratch/stdout"
check 'the JSON, too' json "$scratch/offload12.json" 'all(s["out_of_memory"] == [] and s["memory_peak_bytes"] == 2000000
  and 0 < s["offloaded"]["limit_bytes"] < 2000000 and s["offloaded"]["stored_bytes"] > 0 for s in x["strategies"])'
check 'a slower host takes longer, by the bytes' "$python" -c '
import json, sys
fast, slow = (json.load(open(f))["strategies"] for f in sys.argv[1:])
for f, s in zip(fast, slow):
    moved = s["offloaded"]["loaded_bytes"] + s["offloaded"]["stored_bytes"]
    more = moved / 0.1e9 - moved / 12e9
    assert f["offloaded"] == s["offloaded"] and 0.9 * more < s["iteration_s"] - f["iteration_s"] < 2.1 * more, (f, s)' \
  "$scratch/offload12.json" "$scratch/offload0.1.json"

# refuses WHAT PATTERN ARGUMENT...
refuses() {
  local what=$1 pattern=$2
  shift 2
  check "$what" complains 1 "$pattern" timeout 60 \
    "$parallelize" "$@" --max-proposals 4 --out "$scratch/none" --json "$scratch/none.json"
  check 'and no file is written' test -z "$(find "$scratch/none" "$scratch/none.json" -type f 2>/dev/null)"
}
change machine end 't["links"][0]["to"] = "nowhere"'
change machine still 't["links"][0]["bytes_per_second"] = 0'
change machine negative 't["links"][0]["latency_s"] = -1e-6'
change machine gigabytes 't["links"][0]["bytes_per_second"] = 20'
change machine milliseconds 't["links"][0]["latency_s"] = 0.7'
change machine teraflops 'x["devices"][0]["peaks"][0]["flops_per_second"] = 10.6'
change machine megabytes 'x["devices"][0]["memory_bytes"] = 16000'
change machine apart 't["links"] = [l for l in t["links"] if "n0/gpu3" not in (l["from"], l["to"])]'
change machine model 't["devices"][2]["model"] = "abacus"'
change machine twice 't["devices"][1]["name"] = t["devices"][0]["name"]'
change machine version 'x["version"] = 7'
head -c 700 "$scratch/good.json" >"$scratch/cut.json"
on() { # on WHAT PATTERN MACHINE
  refuses "$1" "$2" zoo:lenet --machine "$3"
}
on 'an unknown machine' 'machine.*abacus' abacus:1x4
on 'a machine without devices' 'p100:0x4' p100:0x4
on 'more devices than a node has' 'p100:1x9' p100:1x9
on 'a machine file that is not there' 'nowhere.json' "$scratch/nowhere.json"
on 'a machine file cut short' 'cut.json, byte 701: is not JSON' "$scratch/cut.json"
on 'an unknown end of a link' 'end.json: .*topology.links\[0\].to: no device or switch' "$scratch/end.json"
on 'no bandwidth' 'still.json: .*links\[0\].bytes_per_second: is 0' "$scratch/still.json"
on 'a latency below zero' 'negative.json: .*links\[0\].latency_s' "$scratch/negative.json"
on 'bandwidths in gigabytes' 'gigabytes.json: .*links\[0\].bytes_per_second' "$scratch/gigabytes.json"
on 'latencies in milliseconds' 'milliseconds.json: .*links\[0\].latency_s' "$scratch/milliseconds.json"
on 'rates in teraflops' 'teraflops.json: .*flops_per_second' "$scratch/teraflops.json"
on 'memory in megabytes' 'megabytes.json: .*memory_bytes' "$scratch/megabytes.json"
on 'a device that no other reaches' 'apart.json: .*n0/gpu3' "$scratch/apart.json"
on 'an unknown kind of device' 'model.json: .*topology.devices\[2\].model' "$scratch/model.json"
on 'a name given twice' 'twice.json: .*n0/gpu0' "$scratch/twice.json"
on 'another version' 'version.json: .*version' "$scratch/version.json"
on 'a strategy as a machine' 'strategy.json: .*unity machine' "$scratch/a/strategy.json"

refuses 'an unknown model' 'zoo.*no_such_model' zoo:no_such_model --machine p100:1x4
refuses 'an unknown key of a model' 'colour' 'zoo:lenet?colour=1' --machine p100:1x4
refuses 'a model file that is not there' 'nowhere.onnx' "$scratch/nowhere.onnx" --machine p100:1x4

silent "$parallelize" 'zoo:mlp?form=fig1' --machine p100:1x4 --max-proposals 4 --out "$scratch/mlp"
silent "$parallelize" 'zoo:lenet?batch=128' --machine p100:1x2 --max-proposals 4 --out "$scratch/two"
silent "$parallelize" 'zoo:lenet?batch=32' --machine p100:1x4 --max-proposals 4 --out "$scratch/batch"
change strategy overlap 'c["tasks"][1]["part"] = c["tasks"][0]["part"]'
change strategy missing 'c["tasks"].pop()'
change strategy degree 'c["dimensions"][0]["degree"] = 3'
change strategy device 'c["tasks"][0]["device"] = "n7/gpu0"'
change strategy other_operator 'c["op"] = "matmul"'
change strategy without 'x["strategy"].pop()'
with() { # with WHAT PATTERN STRATEGY
  refuses "$1" "$2" "${lenet[@]}" --strategy "$3"
}
with 'a strategy for another model' 'mlp/strategy.json: .*another model, "zoo:mlp\?form=fig1"' \
  "$scratch/mlp/strategy.json"
with 'a strategy for another size of the model' 'batch/strategy.json: .*another model, "zoo:lenet\?batch=32"' \
  "$scratch/batch/strategy.json"
with 'a strategy for another machine' 'two/strategy.json: .*p100:1x2' "$scratch/two/strategy.json"
with 'a plan as a strategy' 'plan.json: .*unity strategy' "$scratch/a/plan.json"
with 'overlapping shards' 'overlap.json: .*tasks\[1\].part: part .* is that of tasks\[0\] too' "$scratch/overlap.json"
with 'missing shards' 'missing.json: .*tasks: no task for part ' "$scratch/missing.json"
with 'a degree that does not divide' 'degree.json: .*degree: is 3; expected a divisor' "$scratch/degree.json"
with 'an unknown device' 'device.json: .*no device has the name "n7/gpu0"' "$scratch/device.json"
with 'another operator' 'other_operator.json: .*op: is "matmul"' "$scratch/other_operator.json"
with 'an operator without a configuration' 'without.json: .*nothing for node' "$scratch/without.json"
with 'a strategy file that is not there' 'nowhere.json' "$scratch/nowhere.json"

refuses 'a budget that is no time' 'budget.*soon' "${lenet[@]}" --budget soon
refuses 'a rate that is not a rate' 'offload.*fast' "${lenet[@]}" --offload fast
printf '' >"$scratch/file"
check 'a folder that cannot be made' complains 1 'file/below' \
  "$parallelize" "${lenet[@]}" --max-proposals 4 --out "$scratch/file/below"
check 'a file that cannot be written takes back the others' complains 1 'No space|full' \
  "$parallelize" "${lenet[@]}" --max-proposals 4 --out "$scratch/none" --json /dev/full
check 'and no file is left' test -z "$(find "$scratch/none" -type f 2>/dev/null)"
mkdir -p "$scratch/earlier" && echo earlier >"$scratch/earlier/plan.json"
check 'where there were others before' complains 1 'No space|full' \
  "$parallelize" "${lenet[@]}" --max-proposals 4 --out "$scratch/earlier" --json /dev/full
check 'they are there again' test "$(find "$scratch/earlier" -type f -exec cat {} +)" = earlier

# Bad usage.
check 'no machine' complains 2 'machine' "$parallelize" zoo:lenet
check 'no model' complains 2 'MODEL' "$parallelize" --machine p100:1x4
check 'an unknown flag' complains 2 'divine' "$parallelize" "${lenet[@]}" --divine
check 'an unknown search' complains 2 'search' "$parallelize" zoo:lenet --machine p100:1x4 --search divination
check 'an unknown algorithm' complains 2 'algorithm' "$parallelize" "${lenet[@]}" --algorithm divination
check 'proposals below zero' complains 2 'max-proposals' "$parallelize" "${lenet[@]}" --max-proposals -3
check 'help' silent "$parallelize" --help
flags='machine|search|budget|seed|max-proposals|out|json|strategy'
check 'names every flag' test "$(grep -cE -- "^ +--($flags) " "$scratch/stdout")" = 8
check 'strategies are compared under a synchronization' silent timeout 120 \
  "$parallelize" 'zoo:mlp?layers=3&hidden=64&batch=8' --machine p100:1x2 --max-proposals 20 --sync zero=1 \
  --out "$scratch/sync" --json "$scratch/sync.json"
check 'the plan has it' json "$scratch/sync/plan.json" '
  len(x["synchronization"]["weights"]) > 0 and all(w["how"] == "sharded" for w in x["synchronization"]["weights"])'
check 'and takes what was reported' silent "$simulate" "$scratch/sync/plan.json" --json "$scratch/sync.result"
check 'to the picosecond' "$python" -c 'import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
sys.exit(not any(s["iteration_s"] == b["iteration_s"] for s in a["strategies"]))' \
  "$scratch/sync.json" "$scratch/sync.result"
check 'strategies are compared in micro-batches that recompute' silent timeout 120 \
  "$parallelize" 'zoo:mlp?layers=9&hidden=64&batch=8' --machine p100:1x2 --max-proposals 20 --recompute full \
  --microbatches 2 --out "$scratch/again" --json "$scratch/again.json"
check 'the plan says so' json "$scratch/again/plan.json" '
  len(x["recomputed"]) > 4 and x["pipeline"]["microbatches"] == 2'
check 'and is what was reported' silent "$simulate" "$scratch/again/plan.json" --json "$scratch/again.result"
check 'to the picosecond' "$python" -c 'import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
best = next(s for s in a["strategies"] if s["name"] == a["best"])
sys.exit(not (best["iteration_s"] == b["iteration_s"] and
              best["memory_peak_bytes"] == max(d["peak_bytes"] for d in b["devices"])))' \
  "$scratch/again.json" "$scratch/again.result"
check 'a strategy that does not divide a micro-batch is left out' silent "$parallelize" \
  'zoo:mlp?layers=3&hidden=64&batch=3' --machine p100:2x4 --search flexflow --max-proposals 20 \
  --microbatches 6 --json "$scratch/left_out.json"
check 'which is said' grep -q 'data is left out: .*degree 8 does not divide' "$scratch/stdout"
check 'and the others are compared' json "$scratch/left_out.json" '
  [s["name"] for s in x["left_out"]] == ["data"] and len(x["strategies"]) > 1'
check 'micro-batches that no strategy divides are refused' complains 1 \
  'microbatches 6: fits none of the 2 strategies; unity: .*degree [0-9]+ does not divide' \
  "$parallelize" 'zoo:mlp?layers=3&hidden=64&batch=3' --machine p100:2x4 --search unity --max-proposals 0 \
  --baselines data --dims data --microbatches 6
check 'a micro-batch may have one sample' silent "$parallelize" 'zoo:mlp?batch=2' --machine p100:1x2 \
  --search flexflow --max-proposals 50 --microbatches 4 --json "$scratch/one_sample.json"
check 'strategies that do not divide samples are compared' json "$scratch/one_sample.json" '
  len(x["strategies"]) > 0 and all(s["microbatches"] == 4 for s in x["strategies"])'
check 'a way to recompute that is none is refused before the search' complains 1 "recompute: 'all'; expected none" \
  "$parallelize" 'zoo:mlp?layers=3&hidden=64&batch=8' --machine p100:1x2 --recompute all
check 'micro-batches that do not divide the samples are refused before the search' complains 1 \
  'microbatches: 7, of 16 samples; expected a number that divides them' timeout 60 \
  "$parallelize" 'zoo:lenet?batch=4' --machine p100:1x4 --microbatches 7 --budget 1h
check 'a way that is none is refused before the search' complains 1 "sync: 'all'; expected bucket=SIZE, zero=1" \
  "$parallelize" 'zoo:mlp?layers=3&hidden=64&batch=8' --machine p100:1x2 --sync all
finish
