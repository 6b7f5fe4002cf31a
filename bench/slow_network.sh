#!/usr/bin/env bash
# Training over a slow network, simulated and measured: ranks in network namespaces of their own, joined by a
# switch over cables of limited bandwidth. `calibrate` measures that network, `parallelize` or `distribute` finds
# plans for it, and `train` runs them over it.
# usage: slow_network.sh BIN_DIR [RANKS [RATE [ARGUMENT...]]]
#   BIN_DIR   has calibrate, parallelize and train, all with MPI
#   RANKS     a core for each (2)
#   RATE      of a cable, each direction, as tc has it: 500mbit, 100mbit
#   ARGUMENT  further ones of simulated_and_measured.py, which this calls; --buckets first: of
#             found_buckets.py, --fusion: of fused_training.py, --distribute: of distributed_training.py
# The exit code is 77 with a reason where this machine does not allow it, otherwise that of the script.
set -euo pipefail
(($# >= 1)) || { sed -n '5,11p' "${BASH_SOURCE[0]}" >&2 && exit 2; }
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
bin=$(realpath "$1") ranks=${2:-2} rate=${3:-500mbit}
shift $(($# < 3 ? $# : 3))
skip() { echo "skipped: $*" && exit 77; }

((EUID == 0)) || skip "namespaces need root"
for tool in mpirun ip tc unshare hostname taskset python3; do
  command -v "$tool" > /dev/null || skip "no $tool here"
done

name=unity$$
scratch=$(mktemp -d)
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

taskset -c 0 true 2> /dev/null || skip "no core 0 here"

# A star: rank r's end of its cable is `cable` in its namespace, the other end a port of the switch. Both ends are
# limited, so that each direction of a cable has its bandwidth, whoever sends.
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

# mpirun reaches the other "machines" with this in place of ssh: AGENT ADDRESS COMMAND...; a host name
# of its own makes each one, and a core of its own.
cat > "$scratch/agent" << SCRIPT
#!/bin/sh
rank=\$((\${1##*.} - 1))
core=\$((rank % $(nproc)))
shift
exec taskset -c \$core ip netns exec ${name}_\$rank \\
  unshare --uts sh -c 'hostname unity-'\$rank'; exec sh -c "\$1"' sh "\$*"
SCRIPT
chmod +x "$scratch/agent"
hosts=$(for ((r = 1; r <= ranks; ++r)); do printf '10.231.78.%d:1,' $r; done)
# Each "machine" believes that it has all cores, so mpirun must bind none; who waits lets others work.
cat > "$scratch/on_ranks" << SCRIPT
#!/bin/sh
exec taskset -c 0 ip netns exec ${name}_0 unshare --uts sh -c 'hostname unity-0; exec "\$@"' sh \\
  timeout 600 mpirun --allow-run-as-root --host ${hosts%,} -np $ranks --bind-to none \\
  --mca mpi_yield_when_idle 1 --mca plm_rsh_agent $scratch/agent --mca plm_rsh_no_tree_spawn 1 \\
  --mca btl tcp,self --mca pml ob1 --mca btl_tcp_if_include cable --mca oob_tcp_if_include cable "\$@"
SCRIPT
chmod +x "$scratch/on_ranks"
echo "$ranks ranks, cables of $rate each direction, $(nproc) cores"
script=simulated_and_measured.py
[[ ${1-} != --buckets ]] || { script=found_buckets.py && shift; }
[[ ${1-} != --fusion ]] || { script=fused_training.py && shift; }
[[ ${1-} != --distribute ]] || { script=distributed_training.py && shift; }
python3 "$here/$script" "$bin" --ranks "$ranks" --on-ranks "$scratch/on_ranks" "$@"
