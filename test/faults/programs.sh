# shellcheck shell=bash
# The runs that test/faults.sh disturbs; sourced. Expects $root, $build and $scratch. For each kind of
# run, in $scratch/KIND:
#   before/         the files of an earlier, shorter run
#   whole/          the files after an undisturbed run that started from these
#   milliseconds    its time
#   least_kb        the address space in which the program starts
#   most_kb         that of the whole run

program_of() { # program_of KIND
  case $1 in
    search) echo optimize ;;
    generation) echo generate_rules ;;
    training) echo train ;;
    strategies) echo parallelize ;;
  esac
}
has_program() { # has_program KIND
  [ -x "$build/bin/$(program_of "$1")" ] && { [ "$1" != training ] || [ -x "$build/test/programs/test_make_plan" ]; }
}

# set_command KIND DIR [LENGTH]: `command` is then a run that leaves everything in DIR, and goes on
# from what it finds there.
set_command() {
  local dir=$2
  command=("$build/bin/$(program_of "$1")")
  case $1 in
    search)
      command+=(zoo:nasrnn --budget 10m --max-expansions "${3:-5000}" --checkpoint "$dir/search" --every 200ms
        --out "$dir/out" --json "$dir/result.json")
      [ ! -s "$dir/search" ] || command+=(--resume "$dir/search")
      ;;
    generation)
      command+=(--ops "$root/test/faults/matrices.ops" --max-ops "${3:-3}" --checkpoint "$dir/rules.point"
        --out "$dir/result.rules" --json "$dir/result.json")
      ;;
    training)
      # oneDNN, of the other backend, crashes where memory runs out within it.
      command+=("$scratch/plan.json" --backend reference --steps "${3:-40}" --checkpoint "$dir/weights" --every 1
        --program "$dir/program")
      [ ! -s "$dir/weights" ] || command+=(--resume "$dir/weights")
      ;;
    strategies)
      command+=("zoo:lenet?batch=4" --machine p100:1x4 --budget 10m --max-proposals "${3:-4000}" --threads 2 --seed 1
        --out "$dir/out" --json "$dir/result.json")
      ;;
  esac
}

# The most address space that the command takes, into $1; its exit code is returned.
most_space() {
  local file=$1 now most=0
  "${command[@]}" >/dev/null 2>"$scratch/stderr" &
  local process=$!
  while now=$(sed -n 's/^VmPeak:[ \t]*\([0-9]*\).*/\1/p' "/proc/$process/status" 2>/dev/null) && [ -n "$now" ]; do
    most=$now
    sleep 0.01
  done
  echo "$most" >"$file"
  wait $process
}
starts() { # starts KIND KB: what says that it does not is of the loader, or of a library's
  { (ulimit -v "$2" && exec "$build/bin/$(program_of "$1")" --help) || false; } >/dev/null 2>&1
}
# The least address space in which the program says what flags it has.
least_space() { # least_space KIND
  local low=0 high middle
  high=$(cat "$scratch/$1/most_kb")
  while ((high - low > 256)); do
    middle=$(((low + high) / 2))
    if starts "$1" $middle; then high=$middle; else low=$middle; fi
  done
  echo $high >"$scratch/$1/least_kb"
}
prepare() { # prepare KIND
  local here=$scratch/$1 short start
  mkdir -p "$here/before"
  case $1 in
    search) short=100 ;;
    generation) short=2 ;;
    training)
      short=2
      "$build/test/programs/test_make_plan" 'zoo:lenet?batch=16' p100:1x4 data "$scratch/plan.json" \
        2>"$scratch/stderr" || return 1
      ;;
    strategies) short=50 ;;
  esac
  set_command "$1" "$here/before" "$short"
  "${command[@]}" >/dev/null 2>"$scratch/stderr" || return 1
  [ "$1" != generation ] || rm "$here/before/rules.point"*  # of fewer operators
  cp -a "$here/before" "$here/whole"
  set_command "$1" "$here/whole"
  start=$(date +%s%N)
  most_space "$here/most_kb" || return 1
  echo $((($(date +%s%N) - start) / 1000000)) >"$here/milliseconds"
  least_space "$1"
}
