#!/usr/bin/env bash
# `simulate`: its output on a plan is consistent; bad plans get one line, and no file is written.
# usage: simulate.sh SIMULATE MAKE_PLAN EXAMPLE_PLAN SCRATCH_DIR
set -u
simulate=$1 make_plan=$2 example=$3 scratch=$4
rm -rf "$scratch" && mkdir -p "$scratch"
# shellcheck source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"
python=${python:-/usr/bin/python3}

plan=$scratch/lenet.json
check 'a plan is made' silent "$make_plan" zoo:lenet p100:1x4 expert "$plan"
check 'the example is what is made today' cmp "$plan" "$example"
check 'it is simulated' silent \
  "$simulate" "$plan" --json "$scratch/a.json" --trace "$scratch/a.trace" --svg "$scratch/a.svg"
for line in 'an iteration takes [0-9.]+ ms, [0-9]+ tasks' '^n0/gpu3 ' '^n0/gpu0 -> n0/gpu1 ' '^messages of ' \
  'waited for resource: '; do
  check "the text has $line" grep -qE -- "$line" "$scratch/stdout"
done
check 'the JSON has what is documented' json "$scratch/a.json" '
  set(x) == {"iteration_s", "durations", "tasks", "critical_path", "devices", "links"}
  and all(set(s) == {"task", "start_s", "end_s", "waited_for"} for s in x["critical_path"])
  and [d["name"] for d in x["devices"]] == ["n0/gpu%d" % i for i in range(4)]
  and all({"name", "busy_s", "peak_bytes", "memory_bytes", "bytes_over"} <= set(d) for d in x["devices"])
  and all({"name", "busy_s", "bytes"} <= set(l) for l in x["links"]) and sum(l["bytes"] for l in x["links"]) > 0
  and all(0 < d["busy_s"] <= x["iteration_s"] and d["peak_bytes"] > 0 and d["bytes_over"] == 0 for d in x["devices"])'
check 'the critical path is one: each step waits for the one before, the last ends the iteration' \
  json "$scratch/a.json" '
  (lambda p: p[0]["waited_for"] == "nothing" and p[0]["start_s"] == 0 and p[-1]["end_s"] == x["iteration_s"]
   and all(b["waited_for"].split(": ", 1)[1] == a["task"] and b["end_s"] > a["end_s"] for a, b in zip(p, p[1:]))
   and all(b["start_s"] == a["end_s"] for a, b in zip(p, p[1:]) if b["waited_for"].startswith("resource: ")))(
  x["critical_path"])'
cat >"$scratch/trace.py" <<'END'
# Of each event what Perfetto's importer of Chrome JSON reads; and nothing runs twice at a time on a thread.
import json, sys
trace = json.load(open(sys.argv[1]))
result = json.load(open(sys.argv[2]))
events = trace["traceEvents"]
threads, tasks = {}, {}
for e in events:
    assert isinstance(e["name"], str) and e["name"] and isinstance(e["pid"], int), e
    if e["ph"] == "M":
        assert e["name"] in ("process_name", "thread_name") and isinstance(e["args"]["name"], str), e
        if e["name"] == "thread_name":
            threads[e["pid"], e["tid"]] = e["args"]["name"]
    elif e["ph"] == "X":
        assert e["ts"] >= 0 and e["dur"] > 0 and isinstance(e["cat"], str), e
        tasks.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"]))
    else:
        assert e["ph"] == "C" and e["ts"] >= 0 and e["args"]["bytes"] >= 0, e
assert result["tasks"] / 2 < sum(map(len, tasks.values())) <= result["tasks"]  # meetings are not shown
assert set(tasks) <= set(threads) and {d["name"] for d in result["devices"]} <= set(threads.values())
for runs in tasks.values():
    runs.sort()
    assert all(b[0] >= a[1] - 1e-6 for a, b in zip(runs, runs[1:]))
last = max(end for runs in tasks.values() for _, end in runs)
assert abs(last * 1e-6 - result["iteration_s"]) < 1e-12, (last, result["iteration_s"])
END
check 'the trace is one' silent "$python" "$scratch/trace.py" "$scratch/a.trace" "$scratch/a.json"
check 'the picture is XML' silent is_svg "$scratch/a.svg"
check 'it is simulated again' silent \
  "$simulate" "$plan" --json "$scratch/b.json" --trace "$scratch/b.trace" --svg "$scratch/b.svg"
for kind in json trace svg; do
  check "its $kind is the same" cmp "$scratch/a.$kind" "$scratch/b.$kind"
done

check 'one with times of kernels' silent "$simulate" "$plan" --cost kernels --json "$scratch/kernels.json"
check 'on another device' silent "$simulate" "$plan" --cost kernels:h100 --json "$scratch/h100.json"
check 'which is faster' json "$scratch/h100.json" \
  "x['iteration_s'] < json.load(open('$scratch/kernels.json'))['iteration_s']"
check 'which has to be known' complains 1 "^simulate: --cost kernels: 'abacus'; expected one of k80, " \
  "$simulate" "$plan" --cost kernels:abacus
# As calibrate writes what it measured: a launch of a millisecond is waited for at each operator.
"$python" -c 'import json, sys
x = json.load(open(sys.argv[1]))
for d in x["machine"]["devices"]:
    d["sources"] = {k: "measured" for k in ("bytes_per_second", "launch_s", "peaks.float32")}
    d["launch_s"] = 1e-3
json.dump(x, open(sys.argv[2], "w"))' "$plan" "$scratch/slow.json"
check 'kernels take what was measured of a device' silent \
  "$simulate" "$scratch/slow.json" --cost kernels --json "$scratch/slow_kernels.json"
check 'and are as slow' json "$scratch/slow_kernels.json" 'x["iteration_s"] > 10e-3'
check 'one with times measured here' silent "$simulate" "$plan" --cost measured:reference --timings none \
  --json "$scratch/measured.json"
check 'tells between what it lies' json "$scratch/measured.json" '
  0 < x["interval_s"][0] <= x["iteration_s"] <= x["interval_s"][1]'
check 'and comes from elsewhere' "$python" -c 'import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
sys.exit(a["durations"] == b["durations"] or "interval_s" in a)' "$scratch/a.json" "$scratch/measured.json"

# As calibrate writes what it measured between ranks: some exchanges took four times as long as most.
"$python" -c 'import json, sys
x = json.load(open(sys.argv[1]))
cost = [{"alpha_s": 1, "beta_s_per_byte": 1e-10}]
x["machine"]["links"] = [{"name": "mpi", "ranks": 2, "costs": {"message": cost, "all_reduce": cost},
                          "intervals": {"all_reduce": [0.5, 4]}}]
json.dump(x, open(sys.argv[2], "w"))' "$plan" "$scratch/links.json"
check 'one with exchanges measured elsewhere' silent "$simulate" "$scratch/links.json" --cost measured:reference \
  --timings none --json "$scratch/measured_links.json"
check 'lies between what exchanges take, too' json "$scratch/measured_links.json" \
  'x["interval_s"][1] > 4 * x["interval_s"][0]'

for schedule in fifo kind order path; do
  check "it is simulated by $schedule" silent "$simulate" "$plan" --schedule $schedule --steady --json "$scratch/s.json"
  check 'among others an iteration takes no longer than alone, and no less than any device computes' \
    json "$scratch/s.json" '
    max(d["busy_s"] for d in x["devices"]) <= x["steady"]["iteration_s"] <= 1.000001 * x["iteration_s"]'
done
check 'first in, first out falls into step' silent "$simulate" "$plan" --steady --json "$scratch/s.json"
check 'after some iterations' json "$scratch/s.json" 'x["steady"]["is_steady"]'
check 'a plan whose operators a host launches' silent "$simulate" "$plan" --launch 50us --json "$scratch/launch.json" \
  --trace "$scratch/launch.trace"
check 'waits for its hosts' "$python" -c 'import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
sys.exit(not b["iteration_s"] > a["iteration_s"])' "$scratch/a.json" "$scratch/launch.json"
check 'which the trace shows' grep -q 'host thread of n0/gpu3' "$scratch/launch.trace"
for cost in kernels kernels:p100; do
  check "hosts launch what takes as long as $cost" silent "$simulate" "$plan" --cost $cost --launch 20us \
    --json "$scratch/launch_$cost.json"
done
check 'which the device of the machine says by its name, too' cmp "$scratch/launch_kernels.json" \
  "$scratch/launch_kernels:p100.json"
check 'a launch that is no time is refused' complains 1 'launch' "$simulate" "$plan" --launch often
check 'nor beside measured ones' complains 1 'launch: given, but measured times have launches in them' \
  "$simulate" "$plan" --launch 5us --cost measured:reference
check 'nor beside --steady' complains 2 'steady' "$simulate" "$plan" --launch 5us --steady
check 'an unknown schedule is bad usage' complains 2 'schedule' "$simulate" "$plan" --schedule lifo

"$python" -c 'import json, sys
x = json.load(open(sys.argv[1])); x["optimizer"] = "adam"; json.dump(x, open(sys.argv[2], "w"))' \
  "$plan" "$scratch/adam.json"
check 'a plan with Adam is simulated' silent "$simulate" "$scratch/adam.json" --json "$scratch/adam.result"
for sync in bucket=1MB zero=1 zero=2 zero=3 fsdp,prefetch=0 ps; do
  check "also synchronized by $sync" silent "$simulate" "$scratch/adam.json" --sync $sync --json "$scratch/sync.result"
done
# A machine without a rate of float32 has no analytic times.
"$python" -c 'import json, sys
x = json.load(open(sys.argv[1]))
for d in x["machine"]["devices"]: d["peaks"] = [p for p in d["peaks"] if p["element"] == "float64"]
json.dump(x, open(sys.argv[2], "w"))' "$plan" "$scratch/float64.json"
for sync in bucket=1MB zero=1 ps; do
  check "with measured times alone, too ($sync)" silent "$simulate" "$scratch/float64.json" --sync $sync \
    --cost measured:reference --timings none
done
check 'a way that is none is refused' complains 1 "sync: 'bucket'; expected bucket=SIZE, zero=1, zero=2" \
  "$simulate" "$plan" --sync bucket

check 'what the plan keeps is simulated' silent "$simulate" "$plan" --ranks reference --json "$scratch/kept.result"
for how in full products every=4; do
  check "recomputing ($how)" silent "$simulate" "$plan" --recompute $how --ranks reference \
    --json "$scratch/again.result"
  check 'takes longer, in tasks that are told' "$python" -c 'import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
sys.exit(not (a["iteration_s"] < b["iteration_s"] and a["tasks"] < b["tasks"]))' \
    "$scratch/kept.result" "$scratch/again.result"
done
silent "$make_plan" 'zoo:resnet50?batch=8' p100:1x2 data "$scratch/deep.json"
silent "$simulate" "$scratch/deep.json" --json "$scratch/deep.result"
for how in products all; do
  check "results wait on the host ($how)" silent "$simulate" "$scratch/deep.json" --offload-results $how \
    --json "$scratch/away.result"
  check 'which takes longer, in more tasks, and holds less' "$python" -c 'import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
sys.exit(not (a["iteration_s"] < b["iteration_s"] and a["tasks"] < b["tasks"] and
              all(y["peak_bytes"] < x["peak_bytes"] for x, y in zip(a["devices"], b["devices"]))))' \
    "$scratch/deep.result" "$scratch/away.result"
done
silent "$make_plan" 'zoo:gpt?layers=4&hidden=64&heads=2&seq=64&vocab=64&batch=32' p100:1x2 data "$scratch/deep.json"
for how in none products all; do
  silent "$simulate" "$scratch/deep.json" --offload-results $how --ranks reference --json "$scratch/host_$how.result"
done
check 'ranks hold less, too' "$python" -c 'import json, sys
a, b, c = (json.load(open(f))["devices"] for f in sys.argv[1:])
sys.exit(not all(2 * z["held_bytes"] < x["held_bytes"] and z["held_bytes"] < y["held_bytes"] < 0.8 * x["held_bytes"] and
                 y["peak_bytes"] < x["peak_bytes"] for x, y, z in zip(a, b, c)))' \
  "$scratch/host_none.result" "$scratch/host_products.result" "$scratch/host_all.result"
"$python" -c 'import json, sys
x = json.load(open(sys.argv[1]))
for d in x["machine"]["devices"]: del d["host_bytes_per_second"]
json.dump(x, open(sys.argv[2], "w"))' "$plan" "$scratch/unknown.json"
check 'a device without a rate to its host is told' complains 1 \
  "device n0/gpu0: no rate between it and its host; expected host_bytes_per_second" \
  "$simulate" "$scratch/unknown.json" --offload-results all
check 'recomputing nothing is what the plan does' silent "$simulate" "$plan" --recompute none --ranks reference \
  --json "$scratch/nothing.result"
check 'to the byte' cmp "$scratch/kept.result" "$scratch/nothing.result"
check 'micro-batches' silent "$simulate" "$plan" --microbatches 2 --ranks reference --json "$scratch/micro.result"
check 'hold less' "$python" -c 'import json, sys
a, b = (json.load(open(f))["devices"] for f in sys.argv[1:])
sys.exit(not all(y["held_bytes"] < x["held_bytes"] and y["peak_bytes"] < x["peak_bytes"] for x, y in zip(a, b)))' \
  "$scratch/kept.result" "$scratch/micro.result"
check 'what is recomputed in no known way is refused' complains 1 "recompute: 'some'; expected none, full, products" \
  "$simulate" "$plan" --recompute some
check 'and no operator of how many' complains 1 "recompute every: '0'; expected a positive number" \
  "$simulate" "$plan" --recompute every=0
check 'and parts that samples do not have' complains 1 'microbatches: 7, of [0-9]+ samples; expected a number' \
  "$simulate" "$plan" --microbatches 7

silent "$make_plan" 'zoo:rnnlm?seq=2&batch=1048576' p100:1x2 data "$scratch/large.json"
check 'a plan that does not fit is simulated' silent "$simulate" "$scratch/large.json" --json "$scratch/large.result"
check 'and told with the device and the bytes' \
  grep -qE 'out of memory: n0/gpu1 needs [0-9]+ bytes more than its 16000000000' "$scratch/stdout"
check 'also in the JSON' json "$scratch/large.result" \
  'all(d["bytes_over"] == d["peak_bytes"] - d["memory_bytes"] > 0 for d in x["devices"])'

"$python" -c 'import json, sys
x = json.load(open(sys.argv[1]))
x["pipeline"] = {"microbatches": 2, "stages": [0] * 4, "delayed": True}
json.dump(x, open(sys.argv[2], "w"))' "$plan" "$scratch/delayed.json"
check 'a plan with delayed updates is simulated' silent "$simulate" "$scratch/delayed.json"
check 'as one iteration alone, which is told' \
  grep -qE '^its updates are delayed; this is one iteration alone' "$scratch/stdout"
check 'which has no steady state here' complains 1 'steady with updates that are delayed' \
  "$simulate" "$scratch/delayed.json" --steady
check 'others do not say so' silent "$simulate" "$plan"
check 'as there is nothing to say' test "$(grep -c 'delayed' "$scratch/stdout")" = 0

# change FILE STATEMENT: of python, about the plan x and the configuration c of its first operator.
change() {
  "$python" -c 'import json, sys
x = json.load(open(sys.argv[1])); c = x["strategy"][0]; exec(sys.argv[3]); json.dump(x, open(sys.argv[2], "w"))' \
    "$plan" "$scratch/$1.json" "$2"
}
# refuses WHAT PATTERN FILE
refuses() {
  check "$1" complains 1 "$2" timeout 60 \
    "$simulate" "$3" --json "$scratch/none.json" --trace "$scratch/none.trace" --svg "$scratch/none.svg"
  check "and nothing is written" test -z "$(find "$scratch" -name 'none*')"
}
head -c 3000 "$plan" >"$scratch/cut.json"
printf '{"format": "unity machine", "version": 2}' >"$scratch/machine.json"
change operator 'x["graph"]["nodes"][3]["op"] = "conv3d"'
change operands 'x["graph"]["nodes"][3]["operands"][1] = 2'
change other 'c["op"] = "matmul"'
change missing_operator 'x["strategy"].pop()'
change degree 'c["dimensions"][0]["degree"] = 3'
change overlap 'c["tasks"][1]["part"] = c["tasks"][0]["part"]'
change missing 'c["tasks"].pop()'
change device 'c["tasks"][1]["device"] = "n7/gpu0"'
change link 'x["machine"]["topology"]["links"][0]["to"] = "nowhere"'
change bandwidth 'x["machine"]["topology"]["links"][0]["bytes_per_second"] = 0'
change synchronizer 'x["synchronization"] = {"buckets": [], "weights": [{"node": 1, "how": "gossip"}]}'
change bucket 'x["synchronization"] = {"buckets": ["a"], "weights": [{"node": 1, "how": "all_reduce", "bucket": "b"}]}'
change server 'x["synchronization"] = {
  "buckets": [], "weights": [{"node": 1, "how": "parameter_server", "device": "x"}]}'
change weight 'x["synchronization"] = {"buckets": [], "weights": [{"node": 0, "how": "sharded"}]}'
change empty 'x["synchronization"] = {"buckets": ["a"], "weights": []}'
change recomputed 'x["recomputed"] = [0]'
change twice 'x["recomputed"] = [4, 4]'
change beyond 'x["recomputed"] = [1000]'
change adjoint 'x["graph"]["outputs"] = [99]'
refuses 'a file that is not there' 'nowhere.json' "$scratch/nowhere.json"
refuses 'a plan cut short' 'cut.json, byte 3001: is not JSON' "$scratch/cut.json"
refuses 'another format' 'machine.json: plan: another format; expected "format": "unity plan"' "$scratch/machine.json"
refuses 'an unknown operator' 'plan.graph.nodes\[3\].op: unknown operator "conv3d"' "$scratch/operator.json"
refuses 'operands that do not fit' 'plan.graph.nodes\[3\]: operands that conv2d does not take' "$scratch/operands.json"
refuses 'a strategy for another model' 'plan.strategy\[0\].op: is "matmul".*expected a strategy for this model' \
  "$scratch/other.json"
refuses 'an operator without a configuration' 'plan.strategy: nothing for node 23' "$scratch/missing_operator.json"
refuses 'a degree that does not divide' 'plan.strategy\[0\].dimensions\[0\].degree: is 3; expected a divisor' \
  "$scratch/degree.json"
refuses 'overlapping shards' 'plan.strategy\[0\].tasks\[1\].part: part .* is that of tasks\[0\] too' \
  "$scratch/overlap.json"
refuses 'missing shards' 'plan.strategy\[0\].tasks: no task for part ' "$scratch/missing.json"
refuses 'an unknown device' 'plan.strategy\[0\].tasks\[1\].device: no device has the name "n7/gpu0"' \
  "$scratch/device.json"
refuses 'an unknown end of a link' 'plan.machine.topology.links\[0\].to: no device or switch' "$scratch/link.json"
refuses 'a link without bandwidth' 'plan.machine.topology.links\[0\].bytes_per_second: is 0' "$scratch/bandwidth.json"
refuses 'a way to synchronize that is none' 'plan.synchronization.weights\[0\].how: is "gossip"; expected all_reduce' \
  "$scratch/synchronizer.json"
refuses 'a bucket that is none' 'weights\[0\].bucket: no bucket has the name "b"' "$scratch/bucket.json"
refuses 'a server that is not a device' 'weights\[0\].device: no device has the name "x"' "$scratch/server.json"
refuses 'a weight that is none' 'weights\[0\].node: is 0; expected the node of a weight' "$scratch/weight.json"
refuses 'a bucket without a weight' 'plan.synchronization: synchronization: no weight in bucket a' "$scratch/empty.json"
refuses 'an input that is recomputed' 'plan.recomputed: recomputation, node 0 \(input\): what has no operands' \
  "$scratch/recomputed.json"
refuses 'what is recomputed twice' 'plan.recomputed\[1\]: is 4; expected numbers of the' "$scratch/twice.json"
refuses 'nodes that are none' 'plan.recomputed\[0\]: is 1000; expected numbers of the' "$scratch/beyond.json"
refuses 'an output that is not a value' 'plan.graph.outputs\[0\]: value 99' "$scratch/adjoint.json"
check 'a file that cannot be written takes back the others' complains 1 'No space|full' \
  "$simulate" "$plan" --json "$scratch/none.json" --trace /dev/full
check 'and nothing is left' test ! -e "$scratch/none.json"
# Plans that are stated.
gpt='zoo:gpt?layers=4&hidden=64&heads=4&seq=32&vocab=128&batch=3'
stated() {
  "$simulate" "$1" --plan "$2" --machine dgx_a100_80:1x8 --element bfloat16 --optimizer adam \
    --json "$scratch/stated.json"
}
check 'a plan that is stated is simulated' silent \
  stated "$gpt" megatron:sp,d=2,p=2,t=2,batch=8,interleave=2,zero=1,recompute=selective
check 'and its parts add up' json "$scratch/stated.json" '
  abs(sum(x["breakdown_s"].values()) / x["iteration_s"] - 1) < 1e-6
  and x["interval_s"][0] <= x["iteration_s"] <= x["interval_s"][1] and len(x["stages"]) == 2
  and x["memory_peak_bytes"] == max(s["peak_bytes"] for s in x["stages"]) > 0'
check 'without an interval, since these times know of no spread' grep -qE 'an iteration takes [0-9.]+ s$' \
  "$scratch/stdout"
check 'and written in one order' grep -q \
  '"plan": "megatron:t=2,p=2,d=2,micro=1,batch=8,interleave=2,sp,zero=1,recompute=selective"' "$scratch/stated.json"
check 'devices that degrees do not multiply to' complains 1 'plan: t=2 .* are 4 devices; expected the 8' \
  stated "$gpt" megatron:t=2,p=2
check 'a key that is none' complains 1 "plan, 'x': no such key" stated "$gpt" megatron:t=8,x=1
check 'a model that is not a transformer' complains 1 'a model without attention' stated zoo:lenet megatron:d=8
check 'attention that is one operator has no core' complains 1 'recompute=selective where attention is one operator' \
  stated 'zoo:bert?form=ae&layers=2&hidden=64&heads=4&seq=16' megatron:d=8,recompute=selective
check 'a file is not a model' complains 1 'no model of the zoo' stated "$plan" megatron:d=8
check 'a search finds the fastest statement, and a frontier' silent \
  "$simulate" "$gpt" --plan megatron:search,batch=8 --machine dgx_a100_80:1x8 --element bfloat16 --optimizer adam \
  --json "$scratch/stated.json" --report "$scratch/searched.html"
check 'which no other statement beats' json "$scratch/stated.json" '
  x["search"]["is_complete"] and x["plan"] == x["search"]["frontier"][0]["plan"]
  and x["iteration_s"] == x["search"]["frontier"][0]["iteration_s"]
  and x["memory_peak_bytes"] == x["search"]["frontier"][0]["memory_peak_bytes"]
  and all(a["iteration_s"] < b["iteration_s"] and a["memory_peak_bytes"] > b["memory_peak_bytes"]
          for a, b in zip(x["search"]["frontier"], x["search"]["frontier"][1:]))
  and x["search"]["statements"] == sum(x["search"][k] for k in ("over_memory", "by_bound", "simulated", "left"))'
check 'and draws it' grep -q 'other simulated statements' "$scratch/searched.html"
check 'flash attention is priced, and keeps less' silent \
  "$simulate" "$gpt&attention=flash" --plan megatron:t=2,p=2,d=2,batch=8 --machine dgx_a100_80:2x4 --cost kernels \
  --json "$scratch/flash.json"
check 'with an interval, since times of kernels know of a spread' \
  grep -qE 'an iteration takes [0-9.]+ s \([0-9.]+ to [0-9.]+\)$' "$scratch/stdout"
check 'than products' silent \
  "$simulate" "$gpt" --plan megatron:t=2,p=2,d=2,batch=8 --machine dgx_a100_80:2x4 --cost kernels \
  --json "$scratch/products.json"
check 'by as much as scores take' json "$scratch/flash.json" \
  "x['memory_peak_bytes'] < json.load(open('$scratch/products.json'))['memory_peak_bytes']"
check 'it has no core to recompute' complains 1 \
  'recompute=selective where attention is one operator; expected none or' \
  stated "$gpt&attention=flash" megatron:t=2,p=2,d=2,recompute=selective
check 'a search without a batch' complains 1 "'batch': not given" stated "$gpt" megatron:search
check 'a search for what does not divide' complains 1 'no statement of megatron:search,t=3,batch=8 divides' \
  stated "$gpt" megatron:search,batch=8,t=3
check 'a search that is over at once' complains 1 'no statement was simulated in 0 s' \
  "$simulate" "$gpt" --plan megatron:search,batch=8 --machine dgx_a100_80:1x8 --budget 0s
check 'a budget without a search' complains 1 'nothing is searched' \
  "$simulate" "$gpt" --plan megatron:d=8 --machine dgx_a100_80:1x8 --budget 1s
check 'a statement besides flags of plan files' complains 1 'expected a statement alone' \
  "$simulate" "$gpt" --plan megatron:d=8 --machine dgx_a100_80:1x8 --steady
check 'a file that cannot be written is named before a search' complains 1 'no_folder' timeout 60 \
  "$simulate" "$gpt" --plan megatron:search,batch=64 --machine dgx_a100_80:32x8 --budget 1h \
  --json "$scratch/no_folder/x.json"
check 'no plan is bad usage' complains 2 'PLAN' "$simulate"
finish
