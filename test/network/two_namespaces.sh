#!/usr/bin/env bash
# Ranks in two network namespaces that a virtual cable connects, so their data crosses a network.
# usage: two_namespaces.sh MPIRUN RANKS_PER_NAMESPACE PROGRAM [ARGUMENT]...
# Exit codes: the program's; 77 with a reason if this machine does not permit it.
set -u
mpirun=$1 ranks=$2
shift 2
skip() { echo "skipped: $*" && exit 77; }

((EUID == 0)) || skip "namespaces need root"
for tool in "$mpirun" ip unshare hostname; do
  command -v "$tool" > /dev/null || skip "no $tool here"
done

left=unity_l$$ right=unity_r$$
scratch=$(mktemp -d)
cleanup() {
  ip netns del "$left" 2> /dev/null
  ip netns del "$right" 2> /dev/null
  rm -rf "$scratch"
}
trap cleanup EXIT

{ ip netns add "$left" && ip netns add "$right"; } 2> "$scratch/why" ||
  skip "no network namespaces here ($(cat "$scratch/why"))"
ip link add cable netns "$left" type veth peer name cable netns "$right" 2> "$scratch/why" ||
  skip "no virtual cable here ($(cat "$scratch/why"))"
number=0
for side in "$left" "$right"; do
  number=$((number + 1))
  ip -n "$side" address add "10.231.77.$number/24" dev cable && ip -n "$side" link set cable up &&
    ip -n "$side" link set lo up ||
    skip "the cable cannot be set up"
done

# mpirun reaches the other "machine" with this in place of ssh: AGENT HOST COMMAND...; a host name
# of its own makes it one.
cat > "$scratch/agent" << END
#!/bin/sh
shift
exec ip netns exec $right unshare --uts sh -c 'hostname unity-right; exec sh -c "\$1"' sh "\$*"
END
chmod +x "$scratch/agent"

received() { ip netns exec "$1" cat /sys/class/net/cable/statistics/rx_bytes; }
before=$(($(received "$left") + $(received "$right")))
ip netns exec "$left" unshare --uts sh -c 'hostname unity-left; exec "$@"' sh \
  timeout 600 "$mpirun" --allow-run-as-root --oversubscribe \
  --host "10.231.77.1:$ranks,10.231.77.2:$ranks" -np $((2 * ranks)) --mca plm_rsh_agent "$scratch/agent" \
  --mca btl tcp,self,vader --mca btl_tcp_if_include cable --mca oob_tcp_if_include cable "$@"
code=$?
crossed=$(($(received "$left") + $(received "$right") - before))
echo "$((crossed / 1024)) KiB crossed the cable"
if ((code == 0 && crossed < 1000000)); then
  echo "too little: the ranks did not use it"
  exit 1
fi
exit $code
