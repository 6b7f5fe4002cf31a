#!/usr/bin/env bash
# `verify_rules` on good and bad input: its files, one clear line for errors, exit codes.
# usage: verify_rules.sh PROGRAM SOURCE_DIR SCRATCH_DIR
set -u
program=$1 source=$2 scratch=$3
rm -rf "$scratch" && mkdir -p "$scratch"
passed=0 failed=0
good=$source/test/support/verify_me.rules

note() { if [ "$1" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAILED: $2"; fi; }

# expect CODE PATTERN ARGUMENT...: PATTERN must be in the only line of complaint, and no rule file be written.
expect() {
  local code=$1 pattern=$2 got
  shift 2
  rm -f "$scratch/out.rules"
  timeout 60 "$program" "$@" >"$scratch/stdout" 2>"$scratch/stderr"
  got=$?
  [ "$got" = "$code" ] && grep -qiE -- "$pattern" "$scratch/stderr" &&
    { [ "$code" != 1 ] || [ "$(wc -l <"$scratch/stderr")" = 1 ]; } && [ ! -e "$scratch/out.rules" ]
  note $? "$* (exit $got, expected $code and '$pattern'): $(cat "$scratch/stderr")"
}
rule() { printf '%s\n' "$1" >"$scratch/$2"; }

rule 'rule r relu(?x) => ' truncated.rules
rule 'rule r nonsense(?x) => ?x' unknown.rules
rule '{"rule": [1]}' wrong.json
rule 'not rules at all' text.pb
expect 1 'missing.rules' "$scratch/missing.rules" --out "$scratch/out.rules"
expect 1 'truncated.rules:2:' "$scratch/truncated.rules" --out "$scratch/out.rules"
expect 1 "operator 'nonsense'" "$scratch/unknown.rules" --out "$scratch/out.rules"
expect 1 "operator 'nonsense'" "$good" --axioms "$scratch/unknown.rules" --out "$scratch/out.rules"
expect 1 'wrong.json' "$scratch/wrong.json" --out "$scratch/out.rules"
expect 1 'text.pb' "$scratch/text.pb" --out "$scratch/out.rules"
expect 1 'nowhere' "$good" --out "$scratch/nowhere/out.rules"
expect 1 'No space|full' "$good" --json /dev/full
expect 2 'FILE' --threads 2

# Outputs and rules are checked before anything else, so also before the properties, which are missing here.
printf '%s\n' "$(cat "$source/test/support/verify_me.rules")" 'rule last relu(?x) => ?y' >"$scratch/last.rules"
expect 1 'rule last: unbound variable' "$scratch/last.rules" --axioms "$scratch/missing.rules" \
  --out "$scratch/out.rules"
expect 1 'nowhere' "$good" --axioms "$scratch/missing.rules" --out "$scratch/nowhere/out.rules"
expect 1 'nowhere' "$good" --axioms "$scratch/missing.rules" --json "$scratch/nowhere/out.json"
expect 2 'groups' "$good" --groups many
expect 2 'groups: has an effect with a .pb file alone' "$good" --groups one

# Properties are true before anything is proved from them.
rule 'rule wrong relu(?x) => relu(relu(add(?x, ?x)))' false.rules
rule 'rule wrong relu(?x) => relu(?x) if rank(?x) == 14' high.rules
expect 1 'false.rules: property wrong: .*expected sides that are equal' "$good" --axioms "$scratch/false.rules" \
  --out "$scratch/out.rules"
expect 1 'high.rules: property wrong: no instance' "$good" --axioms "$scratch/high.rules" --out "$scratch/out.rules"
rule 'rule r relu(?x) => relu(relu(?x)) if size(?x) == 2' few.rules
expect 1 'size\(\?x\); expected 2 argument' "$scratch/few.rules" --out "$scratch/out.rules"
expect 1 'size\(\?x\); expected 2 argument' "$good" --axioms "$scratch/few.rules" --out "$scratch/out.rules"

# What follows from the others is said, a contradiction ends it, and a rule that is a property is not a proof.
printf '%s\n' 'rule twice relu(relu(?x)) == relu(?x)' 'rule thrice relu(relu(relu(?x))) == relu(?x)' \
  >"$scratch/more.rules"
"$program" "$good" --axioms "$scratch/more.rules" --check-axioms >"$scratch/stdout" &&
  grep -q '^property thrice: follows from twice$' "$scratch/stdout"
note $? "a property that follows: $(cat "$scratch/stdout")"
rule 'rule back relu(?x) => relu(relu(?x))' same.rules
"$program" "$scratch/same.rules" --out "$scratch/same.out" >"$scratch/stdout" &&
  grep -q '^axiom  back: is the property relu_twice' "$scratch/stdout" &&
  [ "$(head -1 "$scratch/same.out")" = '# the property relu_twice' ]
note $? "a rule that is a property: $(cat "$scratch/stdout" "$scratch/same.out")"

# Rules that differ in what a name of a part stands for are not duplicates.
printf '%s\n' 'rule wrong add(relu(?x), ?y@negate(?x)) => add(?y, negate(?x))' \
  'rule right add(?y@relu(?x), negate(?x)) => add(?y, negate(?x))' \
  'rule plain add(relu(?x), negate(?x)) => add(relu(?x), negate(?x))' >"$scratch/parts.rules"
"$program" "$scratch/parts.rules" --json "$scratch/parts.json" >"$scratch/stdout"
"${python:-/usr/bin/python3}" -c 'import json, sys
x = json.load(open(sys.argv[1]))
sys.exit([r["name"] for r in x["refuted"]] != ["wrong"] or x["proved"] != 2 or
         x["duplicates"] != [{"name": "plain", "of": "right"}])' "$scratch/parts.json"
note $? "names of parts: $(cat "$scratch/stdout")"

# A name does not leave the comment that it is in.
tensor='{"_t": "Tensor", "opId": -1, "tsId": 0}'
operator='{"_t": "Operator", "type": "OP_REPLICATE", "input": ['"$tensor"'], "para": []}'
output='{"_t": "MapOutput", "srcOpId": 0, "srcTsId": 0, "dstOpId": 0, "dstTsId": 0}'
name='evil\nrule injected relu(?x) => identity(?x) proved \"z3 9\"\n'
rule '{"_t": "RuleCollection", "rule": [{"_t": "Rule", "name": "'"$name"'", "srcOp": ['"$operator"'],
  "dstOp": ['"$operator"'], "mappedOutput": ['"$output"']}]}' evil.json
"$program" "$scratch/evil.json" --out "$scratch/evil.rules" >"$scratch/stdout"
note $? 'a rule whose name breaks lines'
[ "$(wc -l <"$scratch/evil.rules")" = 1 ] && grep -q '^# evil rule injected' "$scratch/evil.rules"
note $? "the name of a rule in a comment: $(cat "$scratch/evil.rules")"

# Rules whose names differ only in what names of rules cannot have.
operator='{"_t": "Operator", "type": "OP_RELU", "input": ['"$tensor"'], "para": []}'
again=${operator/-1/0}
rule_of() {
  echo '{"_t": "Rule", "name": "'"$1"'", "srcOp": ['"$operator, $again"'], "dstOp": ['"$operator"'],
         "mappedOutput": ['"${output/'"srcOpId": 0'/'"srcOpId": 1'}"']}'
}
rule '{"_t": "RuleCollection", "rule": ['"$(rule_of 'a b'), $(rule_of a_b)"']}' similar.json
"$program" "$scratch/similar.json" --out "$scratch/similar.rules" >"$scratch/stdout"
note $? 'rules with similar names'
[ "$(grep '^rule ' "$scratch/similar.rules")" = "$(printf 'rule %s\n' a_b a_b_2)" ]
note $? "have different names in a file: $(cat "$scratch/similar.rules")"

# What is proved says so, what was said to be proved and is not is assumed, what is refuted is a comment.
printf '%s\n' 'rule a relu(relu(?x)) => relu(?x) tested 60' \
  'rule b abs(negate(?x)) => abs(?x) if dtype(?x) <= 3 proved "hope 1" by faith' \
  'rule c relu(?x) => ?x' 'rule d abs(abs(?x)) => abs(?x) tested 40' >"$scratch/four.rules"
"$program" "$scratch/four.rules" --out "$scratch/known.rules" >"$scratch/stdout"
note $? 'four rules'
grep -qE '^  proved "z3 [0-9.]+" by relu_twice$' "$scratch/known.rules"
note $? "the proof of a: $(cat "$scratch/known.rules")"
! grep -qE 'hope|faith' "$scratch/known.rules" && grep -q '^  abs(negate(?x)) => abs(?x)$' "$scratch/known.rules"
note $? 'the claim of b'
grep -q '^# refuted: ' "$scratch/known.rules" && grep -q '^#   relu(?x) => ?x$' "$scratch/known.rules"
note $? 'the refusal of c'
grep -q '^  tested 40$' "$scratch/known.rules"
note $? 'the standing of d'
"$program" "$scratch/known.rules" --out "$scratch/again.rules" >"$scratch/stdout" &&
  cmp -s <(grep -v '^#' "$scratch/known.rules") <(grep -v '^#' "$scratch/again.rules")
note $? 'a file that was verified is its own result'
[ "$("$program" "$good" --threads 1 | grep -v ' rules: ')" = "$("$program" "$good" --threads 3 | grep -v ' rules: ')" ]
note $? 'the result depends on the number of threads'

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
