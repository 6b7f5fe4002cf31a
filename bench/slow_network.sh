#!/usr/bin/env bash
# The found plan is faster than data parallelism on a slow network: ranks in network namespaces of their own, joined by a
# switch over cables of limited bandwidth. `calibrate` measures that network, `parallelize` finds a plan for it, and `train`
# runs that plan and data parallelism over it.
# usage: slow_network.sh BIN_DIR [RANKS [RATE [MODEL...]]]
#   BIN_DIR   has calibrate, parallelize and train, all with MPI
#   RATE      of a cable, each direction, as tc has it: 500mbit, 100mbit
#   MODEL     as parallelize has it; the batch is of each rank
# Environment: STEPS, iterations of a run (15); ROUNDS, runs of each plan, in turns (3); KEEP, a folder for all files.
# A row per model: iterations of data parallelism and of the found plan, measured (median) and simulated, and their ratios. The exit code
# is 1 where the found plan is simulated to be faster by more than 20% and is not measured to be faster; 77 with a reason
# where this machine does not allow it.
set -euo pipefail
(($# >= 1)) || { sed -n '5,8p' "${BASH_SOURCE[0]}" >&2 && exit 2; }
bin=$(realpath "$1") ranks=${2:-2} rate=${3:-500mbit}
shift $(($# < 3 ? $# : 3))
models=("$@")
((${#models[@]} > 0)) || models=('zoo:mlp?batch=128&layers=8&hidden=1024' 'zoo:dlrm?form=ae&batch=128&hidden=256&vocab=10000')
steps=${STEPS:-15} rounds=${ROUNDS:-3}
skip() { echo "skipped: $*" && exit 77; }

((EUID == 0)) || skip "namespaces need root"
for tool in mpirun ip tc unshare hostname python3; do
  command -v "$tool" > /dev/null || skip "no $tool here"
done

name=unity$$
scratch=$(mktemp -d)
out=${KEEP:-$scratch}
mkdir -p "$out"
cleanup() {
  for ((r = 0; r < ranks; ++r)); do
    ip netns del "${name}_$r" 2> /dev/null || true
  done
  ip netns del "$name"_switch 2> /dev/null || true
  rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 1' INT TERM
attempt() { # attempt WHAT COMMAND...: skips where this machine does not allow it
  local what=$1
  shift
  "$@" 2> "$scratch/why" || skip "no $what here ($(tr '\n' ' ' < "$scratch/why"))"
}

# A star: rank r's end of its cable is `cable` in its namespace, the other end a port of the switch. Both ends are limited, so that each
# direction of a cable has its bandwidth, whoever sends.
attempt "network namespaces" ip netns add "$name"_switch
attempt "bridge" ip -n "$name"_switch link add switch type bridge
ip -n "$name"_switch link set switch up
limit=(root tbf rate "$rate" burst 16kb latency 100ms)
for ((r = 0; r < ranks; ++r)); do
  own=${name}_$r
  attempt "network namespaces" ip netns add "$own"
  attempt "virtual cable" ip link add cable netns "$own" type veth peer name port$r netns "$name"_switch
  ip -n "$name"_switch link set port$r master switch up
  ip -n "$own" address add 10.231.78.$((r + 1))/24 dev cable
  ip -n "$own" link set cable up
  ip -n "$own" link set lo up
  attempt "limit of bandwidth" tc -n "$own" qdisc add dev cable "${limit[@]}"
  attempt "limit of bandwidth" tc -n "$name"_switch qdisc add dev port$r "${limit[@]}"
done

# mpirun reaches the other "machines" with this in place of ssh: AGENT ADDRESS COMMAND...; a host name of its own makes each one.
cat > "$scratch/agent" << SCRIPT
#!/bin/sh
rank=\$((\${1##*.} - 1))
shift
exec ip netns exec ${name}_\$rank unshare --uts sh -c 'hostname unity-'\$rank'; exec sh -c "\$1"' sh "\$*"
SCRIPT
chmod +x "$scratch/agent"
hosts=$(for ((r = 1; r <= ranks; ++r)); do printf '10.231.78.%d:1,' $r; done)
# Each "machine" believes to have all cores: none is bound, and who waits lets others work.
launch=(mpirun --allow-run-as-root --host "${hosts%,}" -np "$ranks" --bind-to none --mca mpi_yield_when_idle 1
  --mca plm_rsh_agent "$scratch/agent" --mca plm_rsh_no_tree_spawn 1 --mca btl tcp,self --mca pml ob1
  --mca btl_tcp_if_include cable --mca oob_tcp_if_include cable)
on_ranks() {
  ip netns exec "$name"_0 unshare --uts sh -c 'hostname unity-0; exec "$@"' sh timeout 600 "${launch[@]}" "$@"
}
logged() { # logged FILE COMMAND...: its output is shown where it fails
  local log=$1
  shift
  "$@" > "$log" 2>&1 || { cat "$log" >&2 && return 1; }
}

cores=$(nproc)
threads=$((cores / ranks > 0 ? cores / ranks : 1))
logged "$out/calibrate.txt" on_ranks "$bin/calibrate" --backend cpu --backend-threads "$threads" --largest-exchange 4194304 --out "$out/machine.json"
# It measures one rank at a time; several on a core share it.
python3 - "$out/machine.json" "$ranks" "$cores" << 'SCRIPT'
import json, sys
machine, share = json.load(open(sys.argv[1])), min(1, int(sys.argv[3]) / int(sys.argv[2]))
for d in machine["devices"]:
    d["bytes_per_second"] *= share
    d["launch_s"] /= share
    for p in d["peaks"]:
        p["flops_per_second"] *= share
json.dump(machine, open(sys.argv[1], "w"))
SCRIPT
echo "$ranks ranks, cables of $rate each direction, $cores cores"
failed=0
number=0
for model in "${models[@]}"; do
  number=$((number + 1))
  folder=$out/$number
  mkdir -p "$folder"
  logged "$folder/parallelize.txt" "$bin/parallelize" "$model" --machine "$out/machine.json" --search unity --out "$folder/found" \
    --plans "$folder/plans"
  plans=("$folder/plans/data.json" "$folder/found/plan.json")
  for ((round = 1; round <= rounds; ++round)); do
    logged "$folder/data.txt" on_ranks "$bin/train" "${plans[0]}" --steps "$steps" --json "$folder/data.$round.json"
    logged "$folder/found.txt" on_ranks "$bin/train" "${plans[1]}" --steps "$steps" --json "$folder/found.$round.json"
  done
  python3 - "$model" "$folder" "$rounds" << 'SCRIPT' || failed=1
import json, statistics, sys
model, folder, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
runs = {p: [json.load(open(f"{folder}/{p}.{r}.json")) for r in range(1, rounds + 1)] for p in ("data", "found")}
measured = {p: statistics.median(r["measured_iteration_s"] for r in rs) for p, rs in runs.items()}
simulated = {p: rs[0]["simulated_iteration_s"] for p, rs in runs.items()}
print(model)
for p, rs in runs.items():
    shares = {k: statistics.median(max(b[k + "_s"] for b in r["breakdown"]) for r in rs) for k in ("compute", "communication", "waiting", "other")}
    print(f"  {p:6} {measured[p] * 1e3:9.2f} ms measured, {simulated[p] * 1e3:9.2f} simulated: {measured[p] / simulated[p]:.2f}; at most of a rank "
          + ", ".join(f"{v * 1e3:.1f} {k}" for k, v in shares.items()))
m, s = measured["data"] / measured["found"], simulated["data"] / simulated["found"]
print(f"  data over found: {m:.2f} measured, {s:.2f} simulated")
sys.exit(s > 1.2 and m <= 1)
SCRIPT
done
exit "$failed"
