#!/usr/bin/env bash
# `generate_rules` on bad input, on full disks and when it is killed: one clear line, no partly written file, no loss.
# usage: generate_rules.sh PROGRAM SOURCE_DIR SCRATCH_DIR
set -u
program=$1 source=$2 scratch=$3
rm -rf "$scratch" && mkdir -p "$scratch"
passed=0 failed=0
small=$source/test/support/small.ops out=$scratch/out.rules

note() { if [ "$1" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAILED: $2"; fi; }

# run CODE PATTERN COMMAND...: PATTERN must be in the only line of complaint, and no rule file be written.
run() {
  local code=$1 pattern=$2 got
  shift 2
  rm -f "$out"
  timeout 120 "$@" >"$scratch/stdout" 2>"$scratch/stderr"
  got=$?
  [ "$got" = "$code" ] && grep -qE -- "$pattern" "$scratch/stderr" &&
    { [ "$code" != 1 ] || [ "$(wc -l <"$scratch/stderr")" = 1 ]; } && [ ! -e "$out" ]
  note $? "$* (exit $got, expected $code and '$pattern'): $(cat "$scratch/stderr")"
}
expect() { run "$1" "$2" "$program" "${@:3}"; }
# With files of so many kilobytes at most: what is written beyond that fails, as on a full disk.
limited() { (trap '' XFSZ && ulimit -f "$1" && exec "${@:2}"); }
export -f limited

# refuse PATTERN LINE...: a vocabulary of these lines.
refuse() {
  printf '%s\n' "${@:2}" >"$scratch/bad.ops"
  expect 1 "bad.ops:[0-9]+:[0-9]+: .*$1" --ops "$scratch/bad.ops" --out "$out"
}
sizes='sizes M=3, K=4' rows='sort rows input [M, K]'
refuse "'relux'; expected the name of an operator" "$sizes" "$rows" 'operator relux(any)'
refuse "the range of 'axis' is empty" "$sizes" "$rows" 'operator concat{axis={}}(any, any)'
refuse "a letter that 'sizes' declares before it, not 'N'" "$sizes" 'sort rows input [N]'
refuse "a new letter" 'sizes M=3, M=4'
refuse 'a size of 1 to 64' 'sizes M=0'
refuse "an attribute of 'concat'" "$sizes" "$rows" 'operator concat{axes=1}(any, any)'
refuse "no default" "$sizes" "$rows" 'operator concat(any, any)'
refuse "as many operands as 'relu' takes" "$sizes" "$rows" 'operator relu(any, any)'
refuse "'any', 'input' or 'weight'" "$sizes" "$rows" 'operator relu(image)'
refuse "the next line" "$sizes" "$rows" 'operator relu(any) quickly'
refuse 'at least one sort and one operator' "$sizes" "$rows"
refuse "'sizes', 'sort' or 'operator'" 'nonsense'
expect 1 'missing.ops' --ops "$scratch/missing.ops" --out "$out"
for of in 'equal(any, any)' 'less_or_equal(any, any)' 'greater_or_equal(any, any)' 'is_nan(any)' 'is_inf(any)' \
  'arg_max{axis=0}(any)' 'arg_min{axis=0}(any)' 'hardmax{axis=0}(any)' 'top_elements{axis=0, count=1}(any)'; do
  printf '%s\n' "$sizes" "$rows" "operator $of" >"$scratch/bad.ops"
  expect 1 "operator '${of%%[({]*}': results that depend on which values are equal" --ops "$scratch/bad.ops" \
    --out "$out"
done
printf '%s\n' "$sizes" "$rows" 'operator sub(any, any) same_shape' 'operator less(any, any) same_shape' \
  'operator cast{element={bool, int64}}(any)' >"$scratch/elements.ops"
"$program" --ops "$scratch/elements.ops" --max-ops 2 --out "$scratch/elements.rules" >"$scratch/stdout" \
  2>"$scratch/stderr"
note $? "bool and integer results: $(cat "$scratch/stderr")"

# A false property: where it fails, and nothing is generated.
printf '%s\n' 'rule linear_under_relu' \
  '  conv2d{activation=relu}(add(?x, ?y), ?w)' \
  '    == add(conv2d{activation=relu}(?x, ?w), conv2d{activation=relu}(?y, ?w))' \
  '  if shape(?x) == shape(?y)' >"$scratch/false.rules"
expect 1 'linear_under_relu: \?x float32\[[0-9,]+\], .*element 0: [-0-9.]+ and [-0-9.]+ at ' \
  --ops "$small" --axioms "$scratch/false.rules" --out "$out"
printf '%s\n' 'rule r relu(?x) => ' >"$scratch/truncated.rules"
expect 1 'truncated.rules:2:' --ops "$small" --axioms "$scratch/truncated.rules" --out "$out"

# Terms of parallel computation graphs, and the rules that are shipped for all degrees.
"$program" --parallel --max-ops 3 --out "$scratch/parallel.rules" --json "$scratch/parallel.json" >"$scratch/stdout"
note $? 'parallel terms'
"${python:-/usr/bin/python3}" -c 'import json, sys
x = json.load(open(sys.argv[1]))
counts = ("terms", "candidates", "parallel_candidates", "kept", "not_followed")
sums = [sum(n[k] for n in x["vocabularies"]) for k in counts]
sys.exit(sums != [12568, 5239, 4247, 723, 35] or not 0 < len(x["least"]) < 723)' "$scratch/parallel.json"
note $? "counts of docs/rules.md: $(cat "$scratch/stdout")"
rules=$scratch/shipped_parallel.rules
"$program" --shipped parallel --out "$rules"
diff <(grep -A 9 '^rule' "$scratch/parallel.rules" | grep -v '^$\|^#\|^--') \
  <(sed -n '/^# 1\./,/^# 3\./p' "$rules" | grep -v '^$\|^#') >"$scratch/diff"
note $? "the shipped rules are those: $(head -3 "$scratch/diff")"
expect 2 'ops' --parallel --ops matrix --out "$out"

# Rules that ship, as the headers hold them.
for of in standard:tensor/standard_rules generated:tensor/generated_rules derived:tensor/derived_rules \
  axioms:tensor/axioms parallel:parallel/parallel_rules; do
  cmp -s <("$program" --shipped "${of%%:*}") \
    <(sed -n '/R"rules(/,/)rules"/p' "$source/include/unity/${of#*:}.hpp" | sed 's/^.*R"rules(//; /^)rules";$/d')
  note $? "--shipped ${of%%:*}: another text than include/unity/${of#*:}.hpp"
done
expect 2 'shipped' --shipped nonsense --out "$out"
expect 1 'conv2d:iw' --derive conv2d:ix --out "$out"
expect 1 'max-ops.*--derive all' --derive all --max-ops 2

# Places that cannot be written to.
expect 1 'nowhere' --ops tensor --max-ops 7 --out "$scratch/nowhere/out.rules"  # at once, not after days
expect 1 'nowhere' --ops tensor --max-ops 7 --json "$scratch/nowhere/out.json"
expect 1 'nowhere' --ops "$small" --max-ops 1 --checkpoint "$scratch/nowhere/checkpoint" --out "$out"
expect 1 'No space' --ops "$small" --max-ops 1 --out /dev/full
expect 2 'max-ops' --ops "$small" --max-ops many
expect 2 'threads' --ops "$small" --threads 0

# The terms of a checkpoint are in a file beside it.
cp "$small" "$scratch/of.terms"
for flags in "--ops $small --out $scratch/of.terms" "--ops $small --json $scratch/of.terms" \
  "--ops $scratch/of.terms"; do
  expect 1 'of.terms, which --checkpoint writes, too' --max-ops 1 --checkpoint "$scratch/of" $flags
done
cmp -s "$small" "$scratch/of.terms"
note $? 'a file that --checkpoint would overwrite'

# What a run gives, for comparison; the number of threads does not matter.
generate() { "$program" --ops "$small" --max-ops 3 "$@" >/dev/null 2>"$scratch/stderr"; }
generate --out "$scratch/whole.rules" --threads 1
note $? "a whole run: $(cat "$scratch/stderr")"
generate --out "$scratch/threads.rules" --threads 3 && cmp -s "$scratch/whole.rules" "$scratch/threads.rules"
note $? 'three threads'
"$program" --ops "$small" --max-ops 2 --checkpoint "$scratch/other" --json "$scratch/other.json" >/dev/null
"${python:-/usr/bin/python3}" -c 'import json, sys
x = json.load(open(sys.argv[1]))
sys.exit(not 0 < x["are_axioms"] <= x["proved"])' "$scratch/other.json"
note $? 'proved rules that state a property'
cp "$scratch/other.terms" "$scratch/kept.terms"
expect 1 'other.terms.*other operators' --ops "$small" --max-ops 3 --checkpoint "$scratch/other" --out "$out"
expect 1 'other.terms.*other operators' --ops matrix --max-ops 2 --checkpoint "$scratch/other" --out "$out"
cmp -s "$scratch/other.terms" "$scratch/kept.terms"
note $? 'a checkpoint that was refused is left alone'
head -c 100 "$scratch/kept.terms" >"$scratch/other.terms"
expect 1 'other.terms.*cut short' --ops "$small" --max-ops 2 --checkpoint "$scratch/other" --out "$out"

# Killed once some rules are proved: goes on from there, with the same result.
point=$scratch/point
"$program" --ops "$small" --max-ops 3 --checkpoint "$point" --out "$out" >/dev/null 2>&1 &
running=$!
for ((i = 0; i < 6000; ++i)); do
  [ "$(stat -c %s "$point" 2>/dev/null || echo 0)" -gt 200 ] && break
  sleep 0.01
done
kill -9 $running && wait $running 2>/dev/null
[ $? = 137 ] && [ ! -e "$out" ]
note $? 'killed in the middle'
before=$(stat -c %i "$point.terms")
generate --checkpoint "$point" --out "$out" && cmp -s "$scratch/whole.rules" "$out" &&
  [ "$before" = "$(stat -c %i "$point.terms")" ]
note $? "after kill: $(cat "$scratch/stderr")"
rm -f "$out" && generate --checkpoint "$point" --out "$out" && cmp -s "$scratch/whole.rules" "$out"
note $? 'a run that is done is its own result'

expect 2 'excludes' --derive relu:i --max-ops 2 --json "$scratch/none"
expect 2 'excludes' --shipped standard --variables 3
expect 2 'excludes' --shipped standard --axioms "$scratch/false.rules"
expect 2 'excludes' --shipped standard --max-ops 3
expect 2 'excludes' --parallel --axioms "$scratch/false.rules"
expect 2 'excludes' --parallel --threads 9
expect 2 'excludes' --derive relu:i --threads 2
expect 2 'no operators' --derive ''
expect 1 'nowhere: is not a folder; expected' --ops matrix --max-ops 1 --spill "$scratch/nowhere"

# No room for a checkpoint: what was kept before stays, and is gone on from.
run 1 'full.terms.*File too large' bash -c 'limited "$@"' - 6 "$program" --ops "$small" --max-ops 3 \
  --checkpoint "$scratch/full" --out "$out"
[ -s "$scratch/full.terms" ] && generate --checkpoint "$scratch/full" --out "$out" &&
  cmp -s "$scratch/whole.rules" "$out"
note $? "after a full disk: $(cat "$scratch/stderr")"

# No room for terms that do not fit into memory.
printf '%s\n' 'sizes M=3' 'sort activation input [M, M]' 'sort matrix weight [M, M]' 'operator relu(any)' \
  'operator concat{axis={0, 1}}(any, any)' >"$scratch/many.ops"
many=("$program" --ops "$scratch/many.ops" --max-ops 4 --out "$out")
mkdir -p "$scratch/disk"
"${many[@]}" >/dev/null && mv "$out" "$scratch/many.rules"
note $? 'terms in memory'
run 1 'disk: File too large.* room for' bash -c 'limited "$@"' - 100 "${many[@]}" --memory 1 --spill "$scratch/disk" \
  --checkpoint "$scratch/spilled"
run 1 'nowhere: ' "${many[@]}" --memory 1 --spill "$scratch/nowhere"
"${many[@]}" --memory 1 --spill "$scratch/disk" --checkpoint "$scratch/spilled" --json "$scratch/spilled.json" \
  >/dev/null &&
  cmp -s "$scratch/many.rules" "$out" && ! grep -q '"spilled_runs": 0' "$scratch/spilled.json" &&
  [ -z "$(ls "$scratch/disk")" ]
note $? 'terms on disk'

# The same on a disk that is full, where a small one may be mounted.
if unshare -rm mount -t tmpfs tmpfs "$scratch/disk" 2>/dev/null; then
  tiny() { mount -t tmpfs -o size=64k tmpfs "$1" && exec "${@:2}"; }
  export -f tiny
  run 1 'disk: No space.* room for' unshare -rm bash -c 'tiny "$@"' - "$scratch/disk" "${many[@]}" --memory 1 \
    --spill "$scratch/disk"
  run 1 'No space' unshare -rm bash -c 'tiny "$@"' - "$scratch/disk" "${many[@]}" --checkpoint "$scratch/disk/point"
fi

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
