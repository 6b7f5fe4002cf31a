# What the tests of programs share; sourced. Expects $scratch, an empty folder.
passed=0 failed=0

# check WHAT COMMAND...: the command must succeed.
check() {
  local what=$1
  shift
  if "$@"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $what"
    cat "$scratch/stderr"
  fi
}
silent() { # whether the machine is busy with other tests is of no interest
  local code=0
  "$@" >"$scratch/stdout" 2>"$scratch/all" || code=$?
  grep -v ': other processes use ' "$scratch/all" >"$scratch/stderr"
  return "$code"
}
# json FILE EXPRESSION: of python, about the object x.
json() {
  "${python:-/usr/bin/python3}" -c 'import json, sys
x = json.load(open(sys.argv[1]))
sys.exit(not eval("(" + sys.argv[2] + ")"))' "$@"
}
# is_svg FILE: XML, and its outermost element is an svg.
is_svg() {
  "${python:-/usr/bin/python3}" -c 'import sys, xml.etree.ElementTree as e
sys.exit(not e.parse(sys.argv[1]).getroot().tag.endswith("svg"))' "$@"
}
# complains CODE PATTERN COMMAND...: exit code and complaint, which is one line but for bad usage (2).
complains() {
  local code=$1 pattern=$2
  shift 2
  silent "$@"
  [ $? = "$code" ] && { [ "$code" = 2 ] || [ "$(wc -l <"$scratch/stderr")" = 1 ]; } &&
    grep -qE -- "$pattern" "$scratch/stderr"
}
warns() { # warns PATTERN COMMAND...: success, and one line of warning
  complains 0 "$@"
}
finish() {
  echo "$passed passed, $failed failed"
  [ "$failed" = 0 ]
  exit
}
