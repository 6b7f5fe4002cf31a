#!/usr/bin/env bash
# `explain_plan` and `diff_plans`: their output on plans that a rule made; bad plans get one line, and no file is
# written.
# usage: explain_plan.sh EXPLAIN_PLAN DIFF_PLANS MAKE_PLAN SCRATCH_DIR
set -u
explain=$1 diff=$2 make_plan=$3 scratch=$4
rm -rf "$scratch" && mkdir -p "$scratch"
# shellcheck source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"
python=${python:-/usr/bin/python3}

for strategy in data expert; do
  check "a plan by $strategy is made" silent "$make_plan" zoo:lenet p100:1x4 $strategy "$scratch/$strategy.json"
done
check 'it is explained' silent "$explain" "$scratch/data.json" --json "$scratch/a.json" --rows 3
check 'a row for each operator, as many as wanted' test "$(grep -cE '^[a-z0-9_]+ [0-9]+  ' "$scratch/stdout")" = 3
check 'the JSON has all operators, the most expensive first, each with an alternative' json "$scratch/a.json" '
  set(x) == {"iteration_s", "fits", "operators"} and x["fits"] and len(x["operators"]) == 13
  and all(o["alternatives"] > 0 and o["next"]["operators"] >= 1 for o in x["operators"])
  and (lambda t: t == sorted(t, reverse=True))(
    [o["computing_s"] + o["receiving_s"] + o["gradients_s"] for o in x["operators"]])'
check 'no time for alternatives' silent "$explain" "$scratch/data.json" --budget 0s --json "$scratch/b.json"
check 'is said' grep -q '^0 of 13 operators were looked at' "$scratch/stdout"
check 'and has none' json "$scratch/b.json" 'all("next" not in o for o in x["operators"])'

"$python" - "$scratch/data.json" "$scratch/small.json" <<'END'
import json, sys
plan = json.load(open(sys.argv[1]))
for d in plan["machine"]["devices"]:
    d["memory_bytes"] = 1000000
json.dump(plan, open(sys.argv[2], "w"))
END
check 'a plan that does not fit' silent "$explain" "$scratch/small.json" --json "$scratch/small"
check 'takes as long as one that fits' json "$scratch/small" '
  not x["fits"] and x["iteration_s"] == json.load(open("'"$scratch/a.json"'"))["iteration_s"]'

check 'a plan and itself' silent "$diff" "$scratch/data.json" "$scratch/data.json" --json "$scratch/same.json"
check 'are the same' grep -q '^both plans are the same$' "$scratch/stdout"
check 'also in JSON' json "$scratch/same.json" 'x["same"] and x["first"] == x["second"]'
check 'two plans' silent "$diff" "$scratch/data.json" "$scratch/expert.json" --json "$scratch/other.json"
check 'differ by what is divided' json "$scratch/other.json" '
  not x["same"] and x["common"] == 13 and len(x["divided"]) > 0 and x["only_first"] == x["only_second"] == []
  and x["first"]["iteration_s"] != x["second"]["iteration_s"]'

check 'no such plan' complains 1 'none.json' "$explain" "$scratch/none.json" --json "$scratch/none"
check 'a budget that is no time' complains 1 'budget' "$explain" "$scratch/data.json" --budget soon
check 'a number beyond all' complains 2 'rows' "$explain" "$scratch/data.json" --rows 18446744073709551617
"$python" - "$scratch/data.json" "$scratch/faster.json" "$scratch/turned.json" <<'END'
import json, sys
plan = json.load(open(sys.argv[1]))
plan["machine"]["devices"][0]["memory_bytes"] += 1
json.dump(plan, open(sys.argv[2], "w"))
plan = json.load(open(sys.argv[1]))
plan["pipeline"] = {"microbatches": 2, "stages": [0, 0, 0, 0]}
json.dump(plan, open(sys.argv[3], "w"))
END
check 'plans of two machines of one name' silent "$diff" "$scratch/data.json" "$scratch/faster.json"
check 'differ by that' grep -q '^the machines differ, though they have one name$' "$scratch/stdout"
check 'plans of other micro-batches' silent "$diff" "$scratch/data.json" "$scratch/turned.json"
check 'differ by the row of these' grep -qE '^stages, micro-batches +1, 1 +1, 2$' "$scratch/stdout"
check 'schedules have a row' grep -qE '^schedule +one_forward_one_backward +one_forward_one_backward$' "$scratch/stdout"
check 'a plan that is none' complains 1 'a.json' "$diff" "$scratch/data.json" "$scratch/a.json" --json "$scratch/none"
check 'one plan is bad usage' complains 2 'SECOND' "$diff" "$scratch/data.json"
check 'a file that cannot be written' complains 1 'no_folder' \
  "$explain" "$scratch/data.json" --json "$scratch/no_folder/x.json"
cp "$scratch/data.json" "$scratch/kept.json"
check 'a result over the plan' complains 1 '--json: .*kept.json, which PLAN names, too; expected a file of its own' \
  "$explain" "$scratch/kept.json" --json "$scratch/kept.json"
ln -s kept.json "$scratch/link.json"
check 'nor by another name' complains 1 'which FIRST names, too' \
  "$diff" "$scratch/kept.json" "$scratch/data.json" --json "$scratch/link.json"
check 'nor over another result' complains 1 'names, too' \
  "$explain" "$scratch/data.json" --json "$scratch/one" --report "$scratch/one"
check 'the plan is as it was' cmp "$scratch/data.json" "$scratch/kept.json"
check 'output that nobody can keep' complains 1 'standard output: it cannot be written' \
  bash -c 'exec "$0" "$1" >/dev/full' "$explain" "$scratch/data.json"
check 'nothing was written' test ! -e "$scratch/one"
check 'nothing was written' test ! -e "$scratch/none"
finish
