#!/usr/bin/env bash
# One of 4 ranks dies, hangs, never arrives or never starts: the others end in time, each with one line that names it.
# usage: missing_rank.sh MPIRUN PROGRAM
set -u
mpirun=$1 program=$2
scratch=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null; rm -rf "$scratch"' EXIT
runs=0
limits=(2500 60000) # of an operation, and of the start, in ms

# expect LEAST PATTERN ARGUMENT...: mpirun fails, within 60 s, and at least LEAST ranks say PATTERN in a line of their
# own. Four at a time: ranks wait most of the time.
expect() {
  local result=$scratch/$((runs += 1))
  while (($(jobs -rp | wc -l) >= 4)); do
    wait -n
  done
  run "$result" "$@" > "$result.said" &
}
run() { # run RESULT LEAST PATTERN ARGUMENT...
  local output=$1 least=$2 pattern=$3 code start=$SECONDS said crashes
  shift 3
  mkdir "$output.files" # of its own: two that make the same folder at a time fail
  TMPDIR=$output.files timeout --kill-after 10 100 "$mpirun" --oversubscribe --allow-run-as-root "$@" > "$output" 2>&1
  code=$?
  said=$(grep -c -E -- "^$pattern\$" "$output")
  [[ $1 != --enable-recovery ]] || code=1 # it never fails then
  # A rank that crashes fails the test. Open MPI 4.1's mpirun itself crashes now and then, when all ranks have ended.
  crashes=$(grep -c 'Process received signal' "$output")
  ! grep -q 'PMIx_server_finalize' "$output" || ((crashes -= 1))
  if ((code != 0 && SECONDS - start < 60 && said >= least && crashes <= 0)); then
    echo "passed: $* ($said lines, $((SECONDS - start)) s)"
  else
    echo "FAILED: $*: exit $code after $((SECONDS - start)) s, $said lines of '$pattern', expected $least"
    cat "$output"
  fi
}
# of_four LEAST PATTERN HOW WHERE
of_four() { expect "$1" "$2" -np 4 "$program" "$3" "$4" "${limits[@]}"; }

# Of the last ranks mpirun may not pass on the line any more: it kills all when one has died or failed.
of_four 2 'rank 1: has died; expected it to go on' killed barrier
of_four 2 'rank 1: has died; expected it to go on' killed now
of_four 2 'rank 1: has died; expected it to go on' exits barrier
of_four 2 'rank 1: stopped \(out of luck\); expected it to go on' throws barrier
of_four 1 'out of luck' throws barrier
of_four 2 'rank 1: stopped \(an exception of unknown type\); expected it to go on' throws_number barrier
of_four 1 'an exception of unknown type' throws_number barrier
of_four 2 'rank 1: stopped; expected it to end its all_reduce' throws begun
of_four 1 'out of luck' throws begun
of_four 3 'rank 1: does not answer at all_reduce; expected it within 2500 ms' stopped begun
of_four 3 'rank 1: does not answer at barrier; expected it within 2500 ms' stopped barrier
of_four 3 'rank 1: does not answer at all_reduce; expected it within 2500 ms' stopped now
of_four 3 'rank 1: does not answer at barrier; expected it within 2500 ms' stopped group
of_four 3 'rank 1: did not come to barrier; expected it within 2500 ms' late barrier
of_four 3 'rank 1: did not come to barrier; expected it within 2500 ms' late group
of_four 3 'rank 1: did not come to all_reduce; expected it within 2500 ms' late now
of_four 3 'rank 1: did not come to all_gather; expected it within 2500 ms' late done
of_four 3 'rank 1: does not answer at all_gather; expected it within 2500 ms' stopped done
of_four 3 'rank 1: did not come to (receive|barrier); expected it within 2500 ms' late receive
of_four 3 'rank 1: did not come to all_gather; expected it within 2500 ms' late split
of_four 4 'rank [0-3]: waits at receive for 2500 ms, and all others wait as well; expected the same .*' none deadlock
of_four 4 'the plan: rank 1 differs from rank 0; expected the same on all ranks' none agree
expect 4 'the program: rank 1 differs from rank 0; expected the same on all ranks' \
  -np 1 "$program" none one "${limits[@]}" : -np 1 "$program" none another "${limits[@]}" : \
  -np 2 "$program" none one "${limits[@]}"
# Not killed by mpirun when a rank has died: then it is the time limit.
expect 3 'rank 1: does not answer at barrier; expected it within 2500 ms' \
  --enable-recovery -np 4 "$program" killed barrier "${limits[@]}"
of_four 4 'rank [0-3]: waits at .*, and all others wait as well; expected the same .*' none leaves
of_four 1 'exit 1' none leaves_alone
expect 2 'rank 1: has not started; expected it within 4 s' \
  -np 1 "$program" none barrier 2500 4000 : -np 1 sleep 50 : -np 1 "$program" none barrier 2500 4000
of_four 3 'rank [023]: waits in MPI_Finalize; expected all ranks there within 2500 ms' late finalize
expect 1 'rank 1: has not started; expected it before SIGTERM' \
  -np 1 "$program" none barrier 2500 60000 : -np 1 bash -c 'sleep 3; exit 3' : -np 1 "$program" none barrier 2500 60000

# Who does not answer is lost long before the limit; who is slow is not.
wait
limits=(60000 60000)
start=$SECONDS
for where in barrier begun now group; do
  of_four 3 'rank 1: does not answer at (barrier|all_reduce); expected it within 6 s' stopped $where
done
wait
if ((SECONDS - start > 2 * 12)); then # two at a time, 10 s each, and mpirun's start and end
  took=$(((SECONDS - start) / 2))
  echo "FAILED: a silent rank was noticed after $took s, expected 10 at most" > "$scratch/slow.said"
fi
if timeout 100 "$mpirun" --oversubscribe --allow-run-as-root -np 4 "$program" slow barrier "${limits[@]}" \
  > "$scratch/slow" 2>&1; then
  echo "passed: slow barrier" >> "$scratch/slow.said"
else
  echo "FAILED: slow barrier" | cat - "$scratch/slow" >> "$scratch/slow.said"
fi

for ((i = 1; i <= runs; ++i)); do
  cat "$scratch/$i.said"
done
cat "$scratch/slow.said"
failed=$(cat "$scratch"/*.said | grep -c '^FAILED')
echo "$failed failed"
((failed == 0))
