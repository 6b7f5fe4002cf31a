#!/usr/bin/env bash
# `parallelize --search unity`: its output is consistent and agrees with `simulate`, and all searches are compared.
# usage: parallelize_unity.sh PARALLELIZE SIMULATE SCRATCH_DIR
set -u
parallelize=$1 simulate=$2 scratch=$3
rm -rf "$scratch" && mkdir -p "$scratch"
# shellcheck source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"
python=${python:-/usr/bin/python3}
# p100:1x2.json and p100:1x4.json: the presets, but that collectives start at once. Else so small a model stays on one
# device.
for machine in p100:1x2 p100:1x4; do
  silent "$parallelize" zoo:lenet --machine $machine --search flexflow --max-proposals 1 --out "$scratch/preset"
  "$python" -c 'import json, sys
x = json.load(open(sys.argv[1]))["machine"]
for d in x["devices"]:
    del d["collective_start_s"], d["collective_round_s"]
json.dump(x, open(sys.argv[2], "w"))' "$scratch/preset/plan.json" "$scratch/$machine.json"
done
lenet=(zoo:lenet --machine "$scratch/p100:1x4.json")
unity() { silent timeout 120 "$parallelize" "$@" --search unity; }

# What the JSON has.
# Of the polish as many proposals as change options of the own mapping: what is said of it.
check 'it searches' unity "${lenet[@]}" --seed 1 --max-proposals 300 --out "$scratch/a" --json "$scratch/a.json"
cp "$scratch/stdout" "$scratch/text"
for line in 'zoo:lenet on p100:1x4 \(4 devices\)' \
  '^(flexflow|sequential|unity) +[0-9.]+ .* best$' \
  '^parallel substitution: conv2d_with_bias_over_n \(data\), [0-9]+ times' \
  '^parallel substitution: partition_of_combine, [0-9]+ times' \
  '^lower bound: [0-9.]+ ms for mappings of this graph onto the meshes that were searched' \
  '^lower bound: [0-9.]+ ms for all plans of all graphs that substitutions led to' \
  '^search: [0-9]+ graphs expanded, [0-9]+ goals'; do
  check "the text has $line" grep -qE -- "$line" "$scratch/text"
done
check 'the JSON has what is documented' json "$scratch/a.json" '
  set(x) == {"model", "machine", "devices", "strategies", "left_out", "best", "plan", "joint", "bound_s",
             "graphs_bound_s", "gap", "baselines", "search", "checked", "frontier"}
  and x["frontier"] == []
  and x["model"] == "zoo:lenet" and x["machine"].endswith("p100:1x4.json") and x["devices"] == 4
  and x["plan"] == "plan.json"
  and [s["name"] for s in x["strategies"]] == ["data", "model", "expert", "flexflow", "sequential", "unity"]
  and all(set(s) == {"name", "iteration_s", "compute_s", "communication_s", "communication_bytes",
                     "communication_elements", "simulated_devices", "memory_peak_bytes", "out_of_memory",
                     "offloaded", "stages", "microbatches", "schedule", "chunks", "recomputed_operators",
                     "sharded_weights"} and s["simulated_devices"] == "all" for s in x["strategies"])
  and set(x["joint"]) == {"algebraic_rules_used", "parallel_rules_used"}
  and set(x["search"]) == {"seconds", "phases", "proposals", "stop_reason", "expanded", "goals"}
  and set(x["search"]["phases"]) == {"mappings", "substitutions", "mappings_after_substitutions", "pipelines", "splits",
                                     "fewer_kinds", "nearby_graphs", "bounds", "memory", "baselines", "polish"}
  and 0 <= x["search"]["seconds"] - sum(x["search"]["phases"].values()) < 1 and x["search"]["proposals"] <= 300
  and all(set(r) == {"name", "segments"} for r in x["joint"]["algebraic_rules_used"])
  and x["joint"]["parallel_rules_used"]
  and all(set(r) == {"name", "kind", "is_rule", "count"} and r["is_rule"] for r in x["joint"]["parallel_rules_used"])
  and set(x["baselines"]) == {"flexflow", "sequential"}
  and all(set(b) == {"seconds", "proposals"} and b["proposals"] > 0 for b in x["baselines"].values())'
check 'its numbers agree' json "$scratch/a.json" '
  (lambda t: t[x["best"]] == min(t.values()) and t["unity"] == min(t.values())
   and abs(t["unity"] / x["bound_s"] - 1 - x["gap"]) < 1e-9 and x["gap"] >= 0
   and 0 < x["graphs_bound_s"] <= x["bound_s"]
   and all(x["graphs_bound_s"] <= s for s in t.values())
   and x["search"]["seconds"] > 0 and x["search"]["expanded"] > 0 and x["search"]["goals"] > 0)(
  {s["name"]: s["iteration_s"] for s in x["strategies"]})'

# What it writes.
check 'the plan is simulated' silent "$simulate" "$scratch/a/plan.json" --json "$scratch/simulated.json"
cat >"$scratch/agree.py" <<'END'
import collections, json, sys
found, simulated, plan = (json.load(open(f)) for f in sys.argv[1:])
best = next(s for s in found["strategies"] if s["name"] == found["best"])
assert simulated["iteration_s"] == best["iteration_s"] == plan["predicted"]["iteration_s"]
assert [d["peak_bytes"] for d in simulated["devices"]] == plan["predicted"]["memory_bytes"]
assert max(plan["predicted"]["memory_bytes"]) == best["memory_peak_bytes"]
if found["best"] == "unity":
    assert [s["rule"] for s in plan["substitutions"]] == [r["name"] for r in found["joint"]["algebraic_rules_used"]]
    counted = collections.Counter(s["rule"] for s in plan["parallel_substitutions"])
    assert counted == {r["name"]: r["count"] for r in found["joint"]["parallel_rules_used"]}, counted
    assert plan["mesh"]["devices"] == ["n0/gpu%d" % i for i in range(len(plan["mesh"]["devices"]))]
END
check 'and takes as long as predicted, with the same memory' silent \
  "$python" "$scratch/agree.py" "$scratch/a.json" "$scratch/simulated.json" "$scratch/a/plan.json"
substitution='^[a-z0-9_]+( [a-z]=[0-9]+)+(\.reverse)?, (node [0-9]+ \([a-z0-9_]+\)|an output)$'
check 'the substitutions that lead there are told one by one, each by a rule' test \
  "$(grep -cE "$substitution" "$scratch/a/substitutions.txt")" = "$(wc -l <"$scratch/a/substitutions.txt")" \
  -a -s "$scratch/a/substitutions.txt"
check 'also in the plan' "$python" -c 'import json, sys
plan = json.load(open(sys.argv[1]))
sys.exit(len(plan["parallel_substitutions"]) != len(open(sys.argv[2]).readlines()))' \
  "$scratch/a/plan.json" "$scratch/a/substitutions.txt"
filled() { grep -c "fillcolor=\"$1\"" "$scratch/a/pcg.dot"; } # filled COLOUR: how many
check 'the parallel computation graph is drawn, operators green, what divides orange' \
  test "$(filled '#b8e0a8')" -ge 8 -a "$(filled '#f7b26b')" -ge 1
if command -v dot >"$scratch/dot"; then
  check 'also as SVG' silent is_svg "$scratch/a/pcg.svg"
fi

# A pipeline, and how it is scheduled.
check 'it finds a pipeline' unity 'zoo:mlp?layers=16&hidden=1024&batch=32' --machine k80:2x2 --baselines data \
  --max-proposals 0 --out "$scratch/stages" --json "$scratch/stages.json"
check 'the JSON says how it is scheduled, as the plan does' "$python" -c 'import json, sys
result, plan = (json.load(open(f)) for f in sys.argv[1:])
best = next(s for s in result["strategies"] if s["name"] == result["best"])
has = plan["pipeline"]
assert best["stages"] == len(set(has["stages"])) > 1 and best["microbatches"] == has["microbatches"] > 1
assert best["schedule"] == has.get("schedule", "one_forward_one_backward"), best
assert best["chunks"] == has.get("chunks", 1), best
data = next(s for s in result["strategies"] if s["name"] == "data")
assert (data["stages"], data["microbatches"], data["schedule"], data["chunks"]) == (1, 1, None, 1), data' \
  "$scratch/stages.json" "$scratch/stages/plan.json"

# The same again, without what time ends.
fixed=(--baselines data,model,expert --seed 1)
check 'it searches beside what is fixed' unity "${lenet[@]}" "${fixed[@]}" --out "$scratch/b" --json "$scratch/b.json"
# Beside searches their plans may be the best, whose substitutions it does not know.
check 'the text has the substitutions' grep -qE -- '^substitution: [a-z_.]+, in [0-9]+ segments' "$scratch/stdout"
check 'and so has the JSON' json "$scratch/b.json" 'x["joint"]["algebraic_rules_used"]'
check 'and again' unity "${lenet[@]}" "${fixed[@]}" --threads 2 --out "$scratch/c" --json "$scratch/c.json"
check 'its plan and pictures are the same' diff -r "$scratch/b" "$scratch/c"
check 'and so is its JSON, but for the time' "$python" -c '
import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
for x in (a, b):
    del x["search"]["seconds"], x["search"]["phases"]
sys.exit(a != b or a["baselines"] != {} or a["search"]["proposals"] < 2000)' "$scratch/b.json" "$scratch/c.json"

# Figure 2: what the paper counts, and a plan that moves less.
check 'the classifier of figure 1' unity 'zoo:mlp?form=fig1' --machine summit:1x2 --json "$scratch/fig.json"
check 'has the plans of figure 2, and moves no more than the better one' json "$scratch/fig.json" '
  (lambda t: t["figure2a"] == 813056 and t["figure2b"] == 131072 and t["unity"] <= 131072)(
  {s["name"]: s["communication_elements"] for s in x["strategies"]})'

# Figure 10: from a plain transformer block to Megatron's plan or a cheaper one.
for devices in 2 4; do
  check "a block of attention and two layers on $devices devices" \
    unity 'zoo:bert?layers=1&hidden=256&heads=4&seq=64&vocab=1000&batch=1' \
    --machine "$scratch/p100:1x$devices.json" --max-proposals 300 --json "$scratch/block.json"
  check 'is divided no worse than by experts, as rules say' json "$scratch/block.json" '
    (lambda t: t["unity"] <= t["expert"])({s["name"]: s["iteration_s"] for s in x["strategies"]})
    and all(r["is_rule"] for r in x["joint"]["parallel_rules_used"])'
  check 'which are printed' \
    grep -qE '^parallel substitution: matmul_over_[a-z]+ \([a-z]+\), [0-9]+ times' "$scratch/stdout"
done

# Experts.
check 'a transformer' unity 'zoo:bert?form=ae&layers=2&hidden=64&heads=4&seq=16&batch=1' --machine p100:1x4 \
  --optimizer adam --json "$scratch/bert.json"
check 'tables' unity 'zoo:dlrm?form=ae&vocab=1000' --machine p100:1x4 --mesh-axes 2 --candidates 3 \
  --json "$scratch/tables.json"
check 'whole on devices: no gradient of a table is sent' json "$scratch/tables.json" '
  (lambda t: t["expert"] < t["data"] / 2)({s["name"]: s["communication_bytes"] for s in x["strategies"]})'
check 'a strategy from a file' silent "$parallelize" "${lenet[@]}" --max-proposals 10 --out "$scratch/given"
check 'is compared' unity "${lenet[@]}" --strategy "$scratch/given/strategy.json" --json "$scratch/given.json"
check 'by the name of its file' json "$scratch/given.json" \
  'any(s["name"].endswith("given/strategy.json") for s in x["strategies"]) and len(x["strategies"]) == 7'

# Dimensions one by one.
for uses in data model data,model,reduction; do
  check "only $uses" unity "${lenet[@]}" --dims $uses --json "$scratch/dims.json"
  check 'is what is divided' "$python" -c '
import json, sys
used = {r["kind"] for r in json.load(open(sys.argv[1]))["joint"]["parallel_rules_used"]}
sys.exit(not used <= set(sys.argv[2].split(",")) | {None, "copies", "terms"})' "$scratch/dims.json" $uses
done
for what in split cache; do
  check "without $what" unity "${lenet[@]}" --ablate $what --json "$scratch/without.json"
done
check 'without dynamic programming, where all mappings can be tried' \
  unity 'zoo:mlp?form=fig1' --machine summit:1x2 --ablate dp --json "$scratch/tried.json"
check 'it finds as good a plan' json "$scratch/tried.json" \
  'x["search"]["stop_reason"] == "exhausted" and x["search"]["goals"] == 0'
check 'without dynamic programming, where they cannot' \
  unity zoo:resnet50 --machine summit:1x6 --ablate dp --budget 2s --json "$scratch/cut.json"
check 'the time ends it, as it says' grep -q ', ended early: the time is used up$' "$scratch/stdout"
check 'also in the JSON' json "$scratch/cut.json" 'x["search"]["stop_reason"] == "time"'

# Searches with a time of their own.
check 'the same search on the graph of TASO' unity "${lenet[@]}" --baselines data,taso --baseline-budget 500ms \
  --budget 500ms --patience 0 --dims data,model --json "$scratch/taso.json"
check 'is compared' json "$scratch/taso.json" '
  [s["name"] for s in x["strategies"]] == ["data", "taso", "unity"] and set(x["baselines"]) == {"taso"}'
check 'flexflow and sequential' unity "${lenet[@]}" --baselines flexflow,sequential --baseline-budget 300ms \
  --budget 500ms --json "$scratch/apart.json"
check 'have as much time as they are given' json "$scratch/apart.json" '
  [s["name"] for s in x["strategies"]] == ["flexflow", "sequential", "unity"]
  and x["strategies"][2]["iteration_s"] <= x["strategies"][0]["iteration_s"]
  and all(0 < b["seconds"] for b in x["baselines"].values())'

# refuses WHAT PATTERN ARGUMENT...
refuses() {
  local what=$1 pattern=$2
  shift 2
  check "$what" complains 1 "$pattern" timeout 60 "$parallelize" "$@" --out "$scratch/none" --json "$scratch/none.json"
  check 'and no file is written' test -z "$(find "$scratch/none" "$scratch/none.json" -type f 2>/dev/null)"
}
for flag in --algorithm=mcmc --beta=2 --chains=2 --random=2 --unit-share=0.5 --spread=0.1 \
  --placement=any --width=3; do
  refuses "unity with $flag" "${flag%=*}: a flag of --search flexflow" "${lenet[@]}" --search unity $flag
done
for flag in --mesh-axes=2 --dims=data --candidates=3 --ablate=split --baselines=none --baseline-budget=1s; do
  refuses "flexflow with $flag" "${flag%=*}: a flag of --search unity" "${lenet[@]}" --search flexflow $flag
done
refuses 'nothing to compare, and something' 'baselines: none, and others' \
  "${lenet[@]}" --search unity --baselines data,none
refuses 'no time for taso' 'baselines: taso, and no --baseline-budget' \
  "${lenet[@]}" --search unity --baselines taso
refuses 'a time that is none' 'baseline-budget' "${lenet[@]}" --search unity --baseline-budget soon
refuses 'a time for none' 'baseline-budget: given, and no --baselines that search' \
  "${lenet[@]}" --search unity --baselines data --baseline-budget 1s
refuses 'stages that are not searched' 'stages: given with --dims without pipelines' \
  "${lenet[@]}" --search unity --dims data --stages 2
check 'a list before the model' complains 1 'dims: a flag of --search unity' \
  "$parallelize" --dims data,model zoo:lenet --machine p100:1x2
check 'an unknown kind of parallelism' complains 2 'dims' "$parallelize" "${lenet[@]}" --search unity --dims data,luck
check 'an unknown optimizer' complains 2 'optimizer' "$parallelize" "${lenet[@]}" --search unity --optimizer luck

# Machines.
check 'one device' unity zoo:lenet --machine p100:1x1 --json "$scratch/one.json"
check 'has a plan that sends nothing' json "$scratch/one.json" '
  all(s["communication_bytes"] == 0 for s in x["strategies"])
  and x["strategies"][-1]["iteration_s"] <= x["strategies"][0]["iteration_s"]'
"$python" -c 'import json, sys
x = json.load(open(sys.argv[1]))["machine"]
x["devices"][0]["memory_bytes"] = 1000000
json.dump(x, open(sys.argv[2], "w"))' "$scratch/a/plan.json" "$scratch/small.json"
check 'a machine without enough memory' \
  unity zoo:mlp --machine "$scratch/small.json" --json "$scratch/small_result.json"
check 'gets what does not fit told' \
  grep -qE '^unity does not fit: n0/gpu[0-3] needs [0-9]+ bytes more than its 1000000' "$scratch/stdout"
check 'also in the JSON, and the best is least over' json "$scratch/small_result.json" '
  (lambda t: all(t.values()) and t[x["best"]] == min(t.values()))(
  {s["name"]: sum(e["bytes_over"] for e in s["out_of_memory"]) for s in x["strategies"]})'

check 'a model that fits only if time is traded for memory' \
  unity zoo:lenet --machine "$scratch/small.json" --json "$scratch/traded.json"
check 'is given a plan that fits' json "$scratch/traded.json" '
  (lambda s: s["out_of_memory"] == [] and s["memory_peak_bytes"] <= 1000000 and s["microbatches"] > 1
   and x["best"] == "unity" and x["frontier"] == [])(x["strategies"][-1])'

# The frontier of time and memory.
check 'plans that trade time for memory' unity "${lenet[@]}" --seed 1 --frontier --max-proposals 20 --optimizer adam \
  --baselines data --plans "$scratch/frontier" --json "$scratch/frontier.json" --report "$scratch/frontier.html"
check 'none is beaten in both' json "$scratch/frontier.json" '
  (lambda of: len(x["frontier"]) > 4 and set(x["frontier"]) <= {s["name"] for s in x["strategies"]}
   and all(a["iteration_s"] < b["iteration_s"] and a["memory_peak_bytes"] > b["memory_peak_bytes"]
           for a, b in zip(of, of[1:]))
   and any(s["recomputed_operators"] > 0 for s in of) and any(sum(s["sharded_weights"]) > 0 for s in of)
   and any(s["microbatches"] > 1 for s in of))(
  [next(s for s in x["strategies"] if s["name"] == name) for name in x["frontier"]])'
check 'the last is simulated' silent "$simulate" "$scratch/frontier/$("$python" -c 'import json, sys
print(json.load(open(sys.argv[1]))["frontier"][-1])' "$scratch/frontier.json").json" --json "$scratch/last.json"
check 'as the search did it' "$python" -c 'import json, sys
x, y = (json.load(open(f)) for f in sys.argv[1:])
s = next(s for s in x["strategies"] if s["name"] == x["frontier"][-1])
sys.exit(y["iteration_s"] != s["iteration_s"])' "$scratch/frontier.json" "$scratch/last.json"

# Pipelines without bubbles do not allow ZeRO 2.
check 'plans of the frontier that a flag does not fit do not end the comparison' unity \
  'zoo:mlp?batch=8&layers=4&hidden=64' --machine p100:1x4 --seed 1 --frontier --stages 4 --max-proposals 20 \
  --baselines data --sync zero=2 --json "$scratch/unfit.json"
check 'they are left out' json "$scratch/unfit.json" '
  len(x["left_out"]) > 0 and all("schedule interleaved or zero_bubble" in s["reason"] for s in x["left_out"])
  and not {s["name"] for s in x["left_out"]} & (set(x["frontier"]) | {s["name"] for s in x["strategies"]})
  and set(x["frontier"]) <= {s["name"] for s in x["strategies"]}
  and all(s["schedule"] != "zero_bubble" for s in x["strategies"]) and len(x["frontier"]) > 1'
check 'with the reason' grep -qE '^frontier[0-9]+ is left out: .*stage 2 or 3 of sharded' "$scratch/stdout"

# A machine that was only measured: what is written with its topology can be read, or nothing is searched.
"$python" -c 'import json, sys
peak = {"element": "float32", "operator": "matmul", "flops_per_second": 5e10}
device = {"name": "core", "kind": "cpu", "peaks": [peak], "bytes_per_second": 1e10, "memory_bytes": 8000000000,
          "launch_s": 1e-6, "versions": {}}
message = {"alpha_s": 1e-5, "beta_s_per_byte": 1e-9}
x = {"format": "unity machine", "version": 2, "name": "measured", "devices": [device],
     "links": [{"name": "local", "ranks": 4, "costs": {"message": [message]}}]}
for name, change in [("measured", ""), ("twice", "x[\"devices\"] = [device, device]"),
                     ("empty", "device[\"memory_bytes\"] = 0"), ("slow", "message[\"beta_s_per_byte\"] = 1e-3"),
                     ("late", "message[\"alpha_s\"] = 0.3"),
                     ("many", "x[\"links\"][0][\"ranks\"] = 2147483647")]:
    before = json.dumps(x)
    exec(change)
    json.dump(x, open(sys.argv[1] + "/" + name + ".machine.json", "w"))
    x = json.loads(before)
    device, message = x["devices"][0], x["links"][0]["costs"]["message"][0]' "$scratch"
mlp=('zoo:mlp?form=fig1' --baselines none --max-proposals 0)
check 'a measured machine' unity "${mlp[@]}" --machine "$scratch/measured.machine.json" --out "$scratch/measured"
check 'has plans that can be read' silent "$simulate" "$scratch/measured/plan.json"
while read -r name pattern; do
  refuses "a measured machine: $name" "$name.machine.json: $pattern" \
    "${mlp[@]}" --search unity --machine "$scratch/$name.machine.json"
done <<'END'
twice two kinds of device named 'core'; expected names of their own
empty 0 bytes of memory of device 'core'; expected 1e6 or more
slow a link of 1000.0* bytes per second; expected 1e6 to 1e15
late a link's latency of 0.150* s; expected 0.1 s at most
many 2147483647 ranks that share a device; expected 4096 at most
END
finish
