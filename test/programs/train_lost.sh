#!/usr/bin/env bash
# `train` under mpirun, when a rank is lost during the run: the others stop within 10 s, each with one line that names
# it, and the run can be resumed from the last checkpoint.
# usage: train_lost.sh TRAIN MAKE_PLAN MPIRUN SCRATCH_DIR
set -u
train=$1 make_plan=$2 mpirun=$3 scratch=$4
rm -rf "$scratch" && mkdir -p "$scratch"
# shellcheck source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"
ranks=4 lost=2

check 'a plan is made' silent "$make_plan" 'zoo:lenet?batch=16' p100:1x$ranks data "$scratch/plan.json"

ranks_of() { # ranks_of MPIRUN_ID: the processes that it started
  local stat parent
  for stat in /proc/[0-9]*/stat; do
    parent=$(sed 's/.*) . //; s/ .*//' "$stat" 2>/dev/null) || continue
    [ "$parent" != "$1" ] || basename "$(dirname "$stat")"
  done
}
process_of() { # process_of MPIRUN_ID RANK
  local process
  for process in $(ranks_of "$1"); do
    if tr '\0' '\n' <"/proc/$process/environ" 2>/dev/null | grep -qx "OMPI_COMM_WORLD_RANK=$2"; then
      echo "$process"
    fi
  done
}
# loses SIGNAL SECONDS PATTERN: the rank gets the signal once there is a checkpoint; within so many seconds the others
# are gone, and as many lines as there are others say PATTERN. All of mpirun's output is in $scratch/stderr.
loses() {
  local signal=$1 seconds=$2 pattern=$3 job process others start code least=2
  rm -f "$scratch/weights"*
  "$mpirun" --oversubscribe --allow-run-as-root -np $ranks "$train" "$scratch/plan.json" --steps 100000000 \
    --checkpoint "$scratch/weights" --every 3 >"$scratch/stderr" 2>&1 &
  job=$!
  start=$SECONDS
  until [ -s "$scratch/weights.previous" ] || ((SECONDS - start > 30)); do sleep 0.1; done
  process=$(process_of $job $lost)
  others=$(ranks_of $job | grep -vx "$process")
  start=$(date +%s%N)
  kill -s "$signal" "$process" || return 1
  for other in $others; do
    while [ -e "/proc/$other" ] && (($(date +%s%N) - start < 60000000000)); do sleep 0.05; done
  done
  local took=$((($(date +%s%N) - start) / 1000000))
  kill -s KILL "$process" 2>/dev/null
  wait $job
  code=$?
  echo "$signal: gone after $took ms, mpirun exits with $code"
  # Of the last ranks mpirun may not pass on the line: it kills all when one has ended.
  ((code != 0 && took < seconds * 1000)) && [ "$(grep -cE "^$pattern\$" "$scratch/stderr")" -ge $least ]
}
# What is there is a whole run's: three more steps from the checkpoint are those of a run that was never stopped.
goes_on() {
  local first last
  silent timeout 60 "$train" "$scratch/plan.json" --steps 1000000 --resume "$scratch/weights" --comm local --ranks 2
  grep -q 'a plan for 4 devices' "$scratch/stderr" || return 1 # and not: a file cut short
  silent timeout 60 "$train" "$scratch/plan.json" --steps 1 --resume "$scratch/weights" && return 1
  first=$(grep -oE '[0-9]+ steps' "$scratch/stderr" | grep -oE '[0-9]+' | sort -n | tail -1)
  last=$((first + 3))
  silent timeout 60 "$train" "$scratch/plan.json" --steps $last --resume "$scratch/weights" \
    --json "$scratch/rest.json" &&
    silent timeout 120 "$train" "$scratch/plan.json" --steps $last --json "$scratch/whole.json" || return 1
  "${python:-/usr/bin/python3}" -c 'import json, sys
rest, whole = (json.load(open(f))["loss"] for f in sys.argv[1:])
same = len(rest) == 3 and all(abs(a - b) <= 1e-4 * abs(b) for a, b in zip(rest, whole[-3:]))
sys.exit(not same)' "$scratch/rest.json" "$scratch/whole.json"
}

check 'a rank is killed: the others say which, and stop' loses KILL 10 "rank $lost: has died; expected it to go on"
check 'the last checkpoint is good' goes_on
check 'a rank hangs: the others say which, and stop' \
  loses STOP 10 "rank $lost: does not answer at [a-z_]+; expected it within 6 s"
check 'the last checkpoint is good' goes_on
finish
