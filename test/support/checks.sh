# Functions of the tests of programs; to be sourced. Expects $scratch, an empty folder.
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
# silent COMMAND...: keeps the output in files, without the warning that other processes use the machine.
silent() {
  local code=0
  "$@" >"$scratch/stdout" 2>"$scratch/all" || code=$?
  grep -v ': other processes use ' "$scratch/all" >"$scratch/stderr"
  return "$code"
}
# json FILE EXPRESSION: whether the Python expression is true, where x is the parsed file.
json() {
  "${python:-/usr/bin/python3}" -c 'import json, sys
x = json.load(open(sys.argv[1]))
sys.exit(not eval("(" + sys.argv[2] + ")"))' "$@"
}
# is_svg FILE: whether the file is XML with the root element svg.
is_svg() {
  "${python:-/usr/bin/python3}" -c 'import sys, xml.etree.ElementTree as e
sys.exit(not e.parse(sys.argv[1]).getroot().tag.endswith("svg"))' "$@"
}
# complains CODE PATTERN COMMAND...: the command exits with CODE, and its stderr matches the pattern and has one line
# (any number for CODE 2, bad usage).
complains() {
  local code=$1 pattern=$2
  shift 2
  silent "$@"
  [ $? = "$code" ] && { [ "$code" = 2 ] || [ "$(wc -l <"$scratch/stderr")" = 1 ]; } &&
    grep -qE -- "$pattern" "$scratch/stderr"
}
# warns PATTERN COMMAND...: the command succeeds, with one line of warning.
warns() {
  complains 0 "$@"
}
finish() {
  echo "$passed passed, $failed failed"
  [ "$failed" = 0 ]
  exit
}
