#!/usr/bin/env bash
# `train`: runs can be resumed under any plan; bad input gets one line, and existing files stay.
# usage: train.sh TRAIN MAKE_PLAN SCRATCH_DIR PARALLELIZE MPIRUN; the last ones may be -: then the checks that need them
# are left out
set -u
train=$1 make_plan=$2 scratch=$3 parallelize=${4:--} mpirun=${5:--}
rm -rf "$scratch" && mkdir -p "$scratch"
# shellcheck source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"
python=${python:-/usr/bin/python3}
run() { silent timeout 120 "$train" "$@"; }
# same FILE FROM OTHER: losses of the first from a step on are those of the second, which begins there.
same() {
  "$python" -c 'import json, sys
a, b = (json.load(open(f)) for f in (sys.argv[1], sys.argv[3]))
sys.exit(not (b["first_step"] == int(sys.argv[2]) and a["loss"][int(sys.argv[2]):] == b["loss"]))' "$@"
}
# close FILE OTHER: they begin at the same step, and differ by 1e-4 at most.
close() {
  "$python" -c 'import json, sys
a, b = (json.load(open(f))["loss"] for f in sys.argv[1:])
n = min(len(a), len(b))
sys.exit(not all(abs(x - y) <= 1e-4 * abs(y) for x, y in zip(a[-n:], b[-n:])))' "$@"
}

# Plans of one model, and of others.
model='zoo:lenet?batch=16'
for how in data model random; do
  check "a plan ($how) is made" silent "$make_plan" "$model" p100:1x4 "$how" "$scratch/$how.json"
done
check 'one for two devices' silent "$make_plan" "$model" p100:1x2 model "$scratch/two.json"
check 'one for another model' silent "$make_plan" 'zoo:mlp?layers=2&hidden=8&batch=16' p100:1x4 data "$scratch/mlp.json"
check 'one for other batches' silent "$make_plan" 'zoo:lenet?batch=8' p100:1x4 data "$scratch/small.json"
for how in momentum adam; do
  "$python" -c 'import json, sys
x = json.load(open(sys.argv[1])); x["optimizer"] = sys.argv[3]; json.dump(x, open(sys.argv[2], "w"))' \
    "$scratch/data.json" "$scratch/$how.json" "$how"
done

check 'a plan is trained and checked' run "$scratch/data.json" --ranks 4 --steps 8 --check \
  --json "$scratch/whole.result" --trace "$scratch/trace"
check 'the JSON has what is documented' json "$scratch/whole.result" '
  set(x) == {"ranks", "backend", "comm", "first_step", "steps", "loss", "accuracy", "max_rel_error_vs_single",
             "measured_iteration_s", "simulated_iteration_s", "simulated_computing_s",
             "simulated_peak_bytes", "breakdown", "memory"}
  and (x["ranks"], x["comm"], x["first_step"], x["steps"], x["accuracy"]) == (4, "local", 0, 8, None)
  and len(x["loss"]) == 8 and x["max_rel_error_vs_single"] < 1e-4
  and x["measured_iteration_s"] > 0 and x["simulated_iteration_s"] > 0
  and len(x["simulated_computing_s"]) == 4
  and all(0 < s <= x["simulated_iteration_s"] for s in x["simulated_computing_s"])
  and len(x["breakdown"]) == len(x["simulated_peak_bytes"]) == 4
  and all(set(b) == {"compute_s", "update_s", "communication_s", "waiting_s", "other_s"} for b in x["breakdown"])
  and len(x["memory"]) == 4
  and all(m["bytes"] == m["kept_bytes"] + m["arena_bytes"] and m["stored_bytes"] == 0
          and min(m[k] for k in ("kept_bytes", "arena_bytes", "loaded_bytes")) > 0 for m in x["memory"])'
check 'the trace is JSON' json "$scratch/trace" 'len(x["traceEvents"]) > 0'
check 'the trace is of the last step, and says what is summed' json "$scratch/trace" '
  (lambda them: {a["step"] for a in them} == {7} and all(a["clock_us"] > 0 for a in them)
   and any(a.get("direction") == "all_reduce" and a["bytes"] > 0 and "group" in a for a in them))(
    [e["args"] for e in x["traceEvents"] if e["ph"] == "X"])'
# Between two steps of a rank there is time, and nothing that it does.
check 'the last steps are traced' run "$scratch/data.json" --steps 8 --trace "$scratch/trace" --trace-steps 3
check 'each is a step of every rank, on its clock, and all else lies in one' json "$scratch/trace" '
  (lambda events: (lambda steps: sorted(steps) == [(r, s) for r in range(4) for s in (5, 6, 7)]
     and all(steps[r, s][0] + steps[r, s][1] <= steps[r, s + 1][0] for r, s in steps if s < 7)
     and all(steps[e["pid"], e["args"]["step"]][0] <= e["ts"] + 1e-3
             and e["ts"] + e["dur"] <= sum(steps[e["pid"], e["args"]["step"]]) + 1e-3 for e in events)
     and all(len({round(e["args"]["clock_us"] - e["ts"]) for e in events if e["pid"] == r}) <= 2 for r in range(4)))(
    {(e["pid"], e["args"]["step"]): (e["ts"], e["dur"]) for e in events if e["cat"] == "step"}))(
    [e for e in x["traceEvents"] if e["ph"] == "X"])'
check 'as many as there are' run "$scratch/data.json" --steps 2 --trace "$scratch/trace" --trace-steps 100
check 'where there are fewer' json "$scratch/trace" '
  {e["args"]["step"] for e in x["traceEvents"] if e["ph"] == "X"} == {0, 1}'

# What ranks do, and what it should take.
check 'what ranks do is written' run "$scratch/two.json" --ranks 2 --steps 1 --program "$scratch/program" \
  --trace "$scratch/two.trace"
# Messages are told apart by ends and tag: what is waited for was sent by the other end, as many bytes.
check 'the trace says what is sent, and to whom' json "$scratch/two.trace" '
  (lambda sent, received: sent and received <= sent)(*(
    {(a["tag"], a["bytes"], *((e["pid"], a["peer"]) if way == "send" else (a["peer"], e["pid"])))
     for e in x["traceEvents"] if e["ph"] == "X" for a in [e["args"]]
     if (a["kind"], a.get("direction")) == (kind, way)}
    for way, kind in (("send", "communication"), ("receive", "waiting"))))'
check 'by rank and step' test "$(grep -cE '^rank [01]$' "$scratch/program")" = 2 \
  -a "$(grep -cE '^  [0-9]+: .*# .*, (forward|backward)' "$scratch/program")" -gt 20
check 'the same each time' run "$scratch/two.json" --ranks 2 --steps 1 --program "$scratch/program2"
check 'as a comparison shows' cmp -s "$scratch/program" "$scratch/program2"
check 'measured times of operators' run "$scratch/two.json" --steps 1 --cost measured:reference \
  --timings "$scratch/timings" --json "$scratch/measured.result"
check 'are kept' grep -q conv2d "$scratch/timings"
check 'and simulated with' json "$scratch/measured.result" '
  0 < x["simulated_interval_s"][0] <= x["simulated_iteration_s"] <= x["simulated_interval_s"][1]'
cp "$scratch/two.json" "$scratch/kept.json"
check 'a checkpoint over the plan' complains 1 '--checkpoint: .*kept.json, which PLAN names, too' \
  "$train" "$scratch/kept.json" --steps 1 --checkpoint "$scratch/kept.json"
check 'leaves it as it was' cmp "$scratch/two.json" "$scratch/kept.json"
check 'an unknown cost' complains 1 'guessed' "$train" "$scratch/two.json" --cost guessed
check 'timings without measurements' complains 1 'timings.*nothing is measured' \
  "$train" "$scratch/two.json" --timings none
for sync in bucket=100KB zero=1 zero=2 zero=3 fsdp,prefetch=2,keep ps; do
  check "weights synchronized by $sync" \
    run "$scratch/adam.json" --steps 4 --sync $sync --check --json "$scratch/sync.result" \
    --trace "$scratch/sync.trace" --checkpoint "$scratch/sync.weights"
  check 'are as on one device' json "$scratch/sync.result" 'x["max_rel_error_vs_single"] < 1e-4'
  check 'a run goes on from them, all-reduced' \
    run "$scratch/adam.json" --steps 6 --resume "$scratch/sync.weights" --json "$scratch/after.result"
  check 'and from those as before' run "$scratch/adam.json" --steps 6 --sync $sync --json "$scratch/straight.result"
  check 'to the same losses' close "$scratch/after.result" "$scratch/straight.result"
done
check 'the trace of parameter servers has messages' json "$scratch/sync.trace" '
  any(e["args"].get("direction") == "send" for e in x["traceEvents"] if e["ph"] == "X")'
check 'with nothing kept twice' run "$scratch/adam.json" --steps 4 --json "$scratch/kept.result"
for how in full products every=3; do
  check "recomputing ($how)" run "$scratch/adam.json" --steps 4 --recompute $how --json "$scratch/again.result"
  check 'gives equal losses, bit for bit' same "$scratch/kept.result" 0 "$scratch/again.result"
done
for how in products all; do
  check "results that wait on the host ($how)" run "$scratch/adam.json" --steps 4 --offload-results $how \
    --json "$scratch/away.result"
  check 'give equal losses, bit for bit' same "$scratch/kept.result" 0 "$scratch/away.result"
done
check 'a limit of memory beside them is refused' complains 1 'memory: a plan that says what waits on the host' \
  "$train" "$scratch/adam.json" --backend reference --offload-results all --memory 1MB
check 'as are delayed updates' complains 1 'pipeline: delayed updates, and results that are offloaded' \
  "$train" "$scratch/adam.json" --offload-results all --delayed
check 'micro-batches that recompute' run "$scratch/adam.json" --steps 4 --microbatches 2 --recompute products --check \
  --json "$scratch/micro.result"
check 'train as the batch does' close "$scratch/micro.result" "$scratch/kept.result"
check 'and hold less' "$python" -c 'import json, sys
a, b = (json.load(open(f))["memory"] for f in sys.argv[1:])
sys.exit(not all(y["arena_bytes"] < x["arena_bytes"] for x, y in zip(a, b)))' \
  "$scratch/kept.result" "$scratch/micro.result"
check 'a way to recompute that is none is refused' complains 1 "recompute: 'all'; expected none, full" \
  "$train" "$scratch/adam.json" --recompute all
check 'a way that is none is refused' complains 1 "sync: 'zero=4'; expected bucket=SIZE, zero=1, zero=2, zero=3" \
  "$train" "$scratch/adam.json" --sync zero=4
check 'so is an option of fsdp that is none' complains 1 "sync fsdp: 'keeps'; expected prefetch=N or keep" \
  "$train" "$scratch/adam.json" --sync fsdp,keeps
check 'and one that is given twice' complains 1 "sync fsdp: 'keep', a second time" \
  "$train" "$scratch/adam.json" --sync fsdp,keep,keep
check 'and one that is not a number' complains 1 "sync fsdp: 'prefetch=-1'; expected prefetch=N" \
  "$train" "$scratch/adam.json" --sync fsdp,prefetch=-1
check 'as are buckets of no bytes' complains 1 'sync bucket: .0B.; expected a byte at least' \
  "$train" "$scratch/adam.json" --sync bucket=0B
check 'and delayed updates beside' complains 1 'sync: updates that are delayed' \
  "$train" "$scratch/adam.json" --sync ps --delayed

check 'a whole run with delayed updates' \
  run "$scratch/data.json" --steps 8 --delayed --check --json "$scratch/delayed.result"
check 'changes weights one step later' json "$scratch/delayed.result" \
  "x['max_rel_error_vs_single'] < 1e-4
   and [abs(a - b) <= 1e-6 for a, b in zip(x['loss'], json.load(open('$scratch/whole.result'))['loss'])][:3]
   == [True, False, False]"

# A limit of memory: values lie on the host meanwhile, and all else is the same. Without the workspaces of a library,
# which are as large as what could leave.
check 'memory for no plan' complains 1 'memory plan: an arena of 1000 bytes; expected [0-9]+ bytes or more; step' \
  "$train" "$scratch/data.json" --backend reference --memory 1KB
arena=$("$train" "$scratch/data.json" --backend reference --memory 1KB 2>&1 |
  sed -nE 's/.* expected ([0-9]+) bytes or more.*/\1/p')
arena=$((arena * 101 / 100))
check 'all fits' run "$scratch/data.json" --backend reference --steps 4 --json "$scratch/kept.result"
check 'little more than is needed is there' run "$scratch/data.json" --backend reference --steps 4 --memory "$arena" \
  --json "$scratch/less.result" --trace "$scratch/less.trace"
check 'and gives equal losses, bit for bit' same "$scratch/kept.result" 0 "$scratch/less.result"
check 'within the limit, moving what was said' json "$scratch/less.result" "
  all(m['arena_bytes'] <= $arena and m['loaded_bytes'] == m['predicted_loaded_bytes']
      and m['stored_bytes'] == m['predicted_stored_bytes'] for m in x['memory'])
  and sum(m['loaded_bytes'] for m in x['memory'])
      > sum(m['loaded_bytes'] for m in json.load(open('$scratch/kept.result'))['memory'])"
check 'as the trace shows' json "$scratch/less.trace" '
  any(e["args"].get("direction") == "fetch" and e["args"]["bytes"] > 0 for e in x["traceEvents"] if e["ph"] == "X")'
check 'no size' complains 1 "memory: 'little'; expected a number" "$train" "$scratch/data.json" --memory little
check 'delayed updates in little memory' complains 1 'a plan without delayed updates and stale servers' \
  "$train" "$scratch/data.json" --delayed --memory 1MB

# Checkpoints.
for how in data momentum adam; do
  check "$how: a whole run" run "$scratch/$how.json" --steps 8 --json "$scratch/whole.result"
  check "$how: a run that stops" run "$scratch/$how.json" --steps 5 --checkpoint "$scratch/$how.w" --every 2
  check "$how: goes on" run "$scratch/$how.json" --steps 8 --resume "$scratch/$how.w" --json "$scratch/rest.result"
  check "$how: as if it had not stopped" same "$scratch/whole.result" 5 "$scratch/rest.result"
done
check 'the checkpoint before is kept' \
  run "$scratch/adam.json" --steps 8 --resume "$scratch/adam.w.previous" --json "$scratch/rest.result"
check 'and is that after 4 steps' same "$scratch/whole.result" 4 "$scratch/rest.result"
check 'a whole run' run "$scratch/data.json" --steps 8 --json "$scratch/whole.result"
for how in model random two; do
  check "it goes on under another plan ($how), checked" \
    run "$scratch/$how.json" --steps 8 --resume "$scratch/data.w" --check --json "$scratch/rest.result"
  check 'with the losses of the run that did not stop' close "$scratch/whole.result" "$scratch/rest.result"
  check 'and of one device' json "$scratch/rest.result" 'x["first_step"] == 5 and x["max_rel_error_vs_single"] < 1e-4'
done

# Killed at any moment, it leaves a checkpoint that is whole, and that is not older than the one before.
steps_of() { # of the checkpoint
  timeout 60 "$train" "$scratch/data.json" --resume "$1" --steps 1 2>&1 | sed -nE 's/.*: has ([0-9]+) steps; .*/\1/p'
}
check 'a first checkpoint' run "$scratch/data.json" --steps 1 --checkpoint "$scratch/killed.w"
last=1
for delay in 0.31 0.13 0.47 0.22 0.59 0.38 0.27 0.44; do
  timeout 60 "$train" "$scratch/data.json" --resume "$scratch/killed.w" --checkpoint "$scratch/killed.w" --every 1 \
    --steps 1000000 >"$scratch/stdout" 2>"$scratch/stderr" &
  child=$!
  sleep "$delay$((RANDOM % 10))"
  kill -9 "$(pgrep -P "$child" | head -1)" 2>/dev/null || kill -9 "$child"
  wait "$child" 2>/dev/null
  now=$(steps_of "$scratch/killed.w")
  check "killed after $delay s: whole, after ${now:-no} steps, before $last" test "${now:-0}" -ge "$last"
  last=${now:-$last}
done
check 'kills did not stop it for good' test "$last" -gt 1
check 'what is left of it goes on' \
  run "$scratch/data.json" --resume "$scratch/killed.w" --steps $((last + 2)) --json "$scratch/rest.result"
check 'and a run that was not killed' run "$scratch/data.json" --steps $((last + 2)) --json "$scratch/long.result"
check 'is the same' same "$scratch/long.result" "$last" "$scratch/rest.result"

# Bad input: one line, and no file is written.
# refuses WHAT PATTERN ARGUMENT...
refuses() {
  local what=$1 pattern=$2
  shift 2
  check "$what" complains 1 "$pattern" timeout 60 "$train" "$@"
  check "$what: nothing is written" test -z "$(find "$scratch" -name 'none*')"
}
head -c 3000 "$scratch/data.json" >"$scratch/cut.json"
head -c 5000 "$scratch/data.w" >"$scratch/cut.w"
cp "$scratch/data.w" "$scratch/altered.w"
printf '\x7f' | dd of="$scratch/altered.w" bs=1 seek=9000 conv=notrunc 2>/dev/null
cp "$scratch/data.w" "$scratch/kept.w"
head -c 5000 "$scratch/data.w" >"$scratch/broken.w" && cp "$scratch/data.w" "$scratch/broken.w.previous"
results=(--json "$scratch/none.json" --trace "$scratch/none.trace")
refuses 'a plan that is not there' 'nowhere.json' "$scratch/nowhere.json" "${results[@]}"
refuses 'a plan cut short' 'cut.json, byte 3001: is not JSON' "$scratch/cut.json" "${results[@]}"
refuses 'another number of ranks' 'data.json: a plan for 4 devices; expected one for as many as --ranks 3' \
  "$scratch/data.json" --ranks 3 "${results[@]}"
refuses 'a checkpoint that is not there' 'none.w: cannot be read' \
  "$scratch/data.json" --resume "$scratch/none.w" "${results[@]}"
refuses 'a checkpoint cut short' 'cut.w: is cut short at byte 5000; expected [0-9]+ bytes' \
  "$scratch/data.json" --resume "$scratch/cut.w" "${results[@]}"
refuses 'a checkpoint cut short where the one before is there' \
  'broken.w: is cut short.*; .*broken.w.previous is there' "$scratch/data.json" --resume "$scratch/broken.w" \
  "${results[@]}"
refuses 'an altered checkpoint' 'altered.w: its checksum is not that of its content' \
  "$scratch/data.json" --resume "$scratch/altered.w"
refuses 'a checkpoint that is none' 'data.json: another kind of file' "$scratch/data.json" --resume "$scratch/data.json"
refuses 'a checkpoint of another model' 'data.w: weights of another model, fingerprint' \
  "$scratch/mlp.json" --resume "$scratch/data.w"
refuses 'a checkpoint of other batches' 'data.w: of a run with batches of 16 samples; expected batches of 8 samples' \
  "$scratch/small.json" --resume "$scratch/data.w"
refuses 'a checkpoint of another optimizer' 'data.w: of a run with optimizer sgd; expected optimizer adam' \
  "$scratch/adam.json" --resume "$scratch/data.w"
refuses 'another rate' 'data.w: of a run with rate 0.01.*; expected rate 0.5' \
  "$scratch/data.json" --resume "$scratch/data.w" --rate 0.5
refuses 'another seed' 'data.w: of a run with seed 1; expected seed 2' \
  "$scratch/data.json" --resume "$scratch/data.w" --seed 2
refuses 'another loss' 'data.w: of a run with loss cross_entropy; expected loss mean_square' \
  "$scratch/data.json" --resume "$scratch/data.w" --loss mean_square
refuses 'a run that has all its steps' 'data.w: has 5 steps; expected less than --steps 5' \
  "$scratch/data.json" --resume "$scratch/data.w" --steps 5
refuses 'a flag without effect' "beta1: has no effect on the plan's optimizer, sgd" "$scratch/data.json" --beta1 0.5
refuses 'another one' "momentum: has no effect on the plan's optimizer, adam" "$scratch/adam.json" --momentum 0.5
refuses 'mpi without mpirun' 'comm: mpi, and no mpirun|comm: mpi not in' "$scratch/data.json" --comm mpi
refuses 'a result that cannot be written' 'nowhere/x.json: cannot be created' \
  "$scratch/data.json" --json "$scratch/nowhere/x.json"
refuses 'a checkpoint that cannot be written' 'nowhere/w: cannot be created' \
  "$scratch/data.json" --checkpoint "$scratch/nowhere/w"
refuses 'a data set that is not there' 'none.set: cannot be read' "$scratch/data.json" --data "$scratch/none.set"
refuses 'a data set that is none' 'data.w: another kind of file; expected one that begins with "unity dataset 1"' \
  "$scratch/data.json" --data "$scratch/data.w"
refuses 'a loss that is not a number' 'step [0-9]+: a loss of .*, first from [a-z_0-9]+ [0-9]+' \
  "$scratch/data.json" --rate 1e38 --steps 50 --checkpoint "$scratch/kept.w" --every 1 "${results[@]}"
# At such a rate rounding grows until losses have little in common.
refuses 'losses that are not those of one device' '--check: losses that differ from .*; expected 0.0001 at most' \
  "$(dirname "$0")/../../examples/plans/lenet_p100.json" --ranks 4 --rate 5 --steps 60 --check
check 'the checkpoint from before it is whole' test "$(steps_of "$scratch/kept.w")" -ge 1
for flags in '--steps 0' '--steps x' '--rate nan' '--rate -1' '--beta2 1' '--every 3' '--shift 1' '--loss hinge' \
  '--comm smoke' '--trace-steps 2' '--trace-steps 0 --trace none' '--trace-steps x --trace none'; do
  # shellcheck disable=SC2086
  check "bad usage: $flags" complains 2 "${flags%% *}" timeout 60 "$train" "$scratch/data.json" $flags
done

if [ "$parallelize" != - ]; then
  check 'a plan is found' silent timeout 120 "$parallelize" 'zoo:lenet?batch=4' --machine p100:1x4 \
    --search flexflow --max-proposals 2000 --out "$scratch/found"
  check 'and trained' run "$scratch/found/plan.json" --steps 8 --check --json "$scratch/found.result"
  check 'with the losses of others' close "$scratch/whole.result" "$scratch/found.result"
  check 'a plan in stages is found' silent timeout 120 "$parallelize" 'zoo:mlp?form=fig1' --machine host:1x2 \
    --search unity --dims pipeline --baselines none --max-proposals 0 --plans "$scratch/stages"
  stages=(timeout 60 "$train" "$scratch/stages/unity.json" --loss mean_square --backend reference --steps 4 --delayed)
  check 'and trained with delayed updates' silent "${stages[@]}" --check --json "$scratch/stages.result"
  check 'each of them computes no longer than an iteration' json "$scratch/stages.result" \
    'x["max_rel_error_vs_single"] < 1e-4
     and all(0 < s <= x["simulated_iteration_s"] for s in x["simulated_computing_s"])'
  check 'a loss of them that is not a number ends it at once' complains 1 \
    'step [0-9]+: a loss of .*, first from [a-z_0-9]+ [0-9]+' "${stages[@]}" --rate 1e30
  check 'it goes on with what another plan has learned' \
    run "$scratch/found/plan.json" --steps 8 --resume "$scratch/data.w"
fi

if [ "$mpirun" != - ]; then
  mpi() { silent timeout --kill-after 10 120 "$mpirun" --oversubscribe --allow-run-as-root "$@"; }
  # complains_on_ranks PATTERN ARGUMENT...: it fails; lines of a rank's own say PATTERN, among those of mpirun.
  complains_on_ranks() {
    local pattern=$1
    shift
    ! mpi "$@" && grep -qE -- "$pattern" "$scratch/stderr"
  }
  check 'processes train' mpi -np 4 "$train" "$scratch/model.json" --steps 5 --check \
    --checkpoint "$scratch/mpi.w" --json "$scratch/mpi.result"
  check 'it says so' json "$scratch/mpi.result" \
    '(x["comm"], x["ranks"]) == ("mpi", 4) and x["max_rel_error_vs_single"] < 1e-4'
  check 'and threads go on' run "$scratch/two.json" --steps 8 --resume "$scratch/mpi.w" --json "$scratch/rest.result"
  check 'with the same losses' close "$scratch/whole.result" "$scratch/rest.result"
  check 'and processes go on where threads stopped' \
    mpi -np 2 "$train" "$scratch/two.json" --steps 8 --resume "$scratch/data.w" --json "$scratch/rest.result"
  check 'with the same losses' close "$scratch/whole.result" "$scratch/rest.result"
  check 'another number of ranks' complains_on_ranks 'plan: one for 4 devices; expected as many as the 2 ranks' \
    -np 2 "$train" "$scratch/data.json"
  check 'local under mpirun' complains_on_ranks 'comm: local, in one of 2 processes' \
    -np 2 "$train" "$scratch/two.json" --comm local
  check 'other --ranks than those of mpirun' complains_on_ranks 'ranks: 4; expected the 2 of mpirun' \
    -np 2 "$train" "$scratch/two.json" --ranks 4
fi
finish
