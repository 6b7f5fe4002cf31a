# shellcheck shell=bash
# Checks after a disturbed run; sourced by test/faults.sh. Expects $scratch, with the files that programs.sh makes.
failures=0 refusals=0

fail() { # fail WHAT
  failures=$((failures + 1))
  echo "FAILED: $1"
}
# Sets `drawn`: from LEAST to MOST. (A value would come from a subshell, whose random numbers are always the same.)
draw() {
  drawn=$(($1 + (RANDOM * 32768 + RANDOM) % ($2 - $1 + 1)))
}
kilobytes() { du -sk "$1" | cut -f1; }
names() { (cd "$1" && find . -type f | sort); }

# A run's results: what it keeps while it goes on is none, and pictures are drawn by another program.
results() { names "$1" | grep -vE '/(search|rules\.point.*|weights\.previous)$|\.svg$'; }
equal() { # equal FILE FILE: but for times and memory
  local timed='"(seconds|cpu_s|candidates_per_s|seconds_to_best|peak_rss_bytes|enumerate|prune|verify)"'
  case $1 in
    *.json) [ -e "$2" ] && cmp -s <(grep -vE "$timed" "$1") <(grep -vE "$timed" "$2") ;;
    *) cmp -s "$1" "$2" ;;
  esac
}

begin() { # begin KIND
  rm -rf "$scratch/$1/run" "$scratch/after"
  cp -a "$scratch/$1/before" "$scratch/$1/run"
}
is_whole() { # is_whole KIND WHAT: all results are those of the run that was not disturbed
  local file
  for file in $(results "$scratch/$1/whole"); do
    equal "$scratch/$1/whole/$file" "$scratch/$1/run/$file" ||
      { fail "$2: $file is not that of an undisturbed run" && return 1; }
  done
}
no_more_files() { # no_more_files KIND WHAT
  local more
  more=$(comm -13 <(names "$scratch/$1/whole") <(names "$scratch/$1/run"))
  [ -z "$more" ] || { fail "$2: leaves $(tr '\n' ' ' <<<"$more")" && return 1; }
}
# Of a run that ended by itself: results as they were. The weights of a training run are both a result and what is gone
# on from: that they are whole shows when that is done.
each_old() { # each_old KIND WHAT
  local file
  for file in $(results "$scratch/$1/before"); do
    [ "$1/$file" = training/./weights ] || cmp -s "$scratch/$1/before/$file" "$scratch/$1/run/$file" ||
      { fail "$2: $file is not what it was" && return 1; }
  done
}
each_old_or_new() { # each_old_or_new KIND WHAT
  local file
  for file in $(results "$scratch/$1/before"); do
    [ "$1/$file" = training/./weights ] || cmp -s "$scratch/$1/before/$file" "$scratch/$1/run/$file" ||
      equal "$scratch/$1/whole/$file" "$scratch/$1/run/$file" ||
      { fail "$2: $file is neither what it was nor the result" && return 1; }
  done
}
# Undisturbed from now on.
goes_on() { # goes_on KIND WHAT
  local code=0
  set_command "$1" "$scratch/$1/run"
  timeout 120 "${command[@]}" >/dev/null 2>"$scratch/stderr" || code=$?
  if [ "$1" = training ] && [ "$code" = 1 ] && grep -q 'has 40 steps; expected less' "$scratch/stderr"; then
    # It was stopped after its last step, while it wrote what it did: no run writes that again, or what lies beside it.
    rm -f "$scratch/training/run/program".{unity-before,partial0}
    cp "$scratch/training/whole/program" "$scratch/training/run/program"
    code=0
  fi
  [ "$code" = 0 ] || { fail "$2: does not go on (exit code $code): $(head -2 "$scratch/stderr")" && return 1; }
  is_whole "$1" "$2, then gone on from" && no_more_files "$1" "$2, then gone on from"
}
# The run did all that it should, or says in one line why not and changed no result.
ends_well() { # ends_well KIND CODE WHAT
  if [ "$2" = 0 ]; then
    is_whole "$1" "$3" && no_more_files "$1" "$3"
    return
  fi
  refusals=$((refusals + 1))
  if [ "$2" != 1 ]; then
    fail "$3: exit code $2, expected 0 or 1: $(head -2 "$scratch/stderr")"
  elif [ "$(wc -l <"$scratch/stderr")" != 1 ]; then
    fail "$3: $(wc -l <"$scratch/stderr") lines of complaint, expected one: $(head -3 "$scratch/stderr")"
  elif grep -qE 'std::|bad_alloc|terminate|[Aa]ssert' "$scratch/stderr"; then
    fail "$3: a complaint that is not clear: $(cat "$scratch/stderr")"
  else
    each_old "$1" "$3" && no_more_files "$1" "$3" && goes_on "$1" "$3"
  fi
}
