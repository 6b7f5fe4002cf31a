#!/usr/bin/env bash
# `distribute`: its output, files and error messages, and training of its plans on ranks.
# usage: distribute.sh DISTRIBUTE TRAIN SIMULATE SOURCE_DIR SCRATCH_DIR [MPIRUN]
set -u
distribute=$1 train=$2 simulate=$3 source=$4 scratch=$5 mpirun=${6:--}
rm -rf "$scratch" && mkdir -p "$scratch"
. "$(dirname "$0")/../support/checks.sh"
cd "$scratch" || exit 1
model='zoo:dlrm?form=ae&batch=8&hidden=8&vocab=41'
nodes=$source/examples/data/two_nodes.yml

check "all rules are simulated" silent "$distribute" "$model" --resources "$nodes" --out every --json every.json
check "... and the fastest is named" json every.json 'len(x["strategies"]) == 11 and x["replicas"] == 4
  and x["servers"] == 2 and x["chief"] == "10.0.0.1"
  and min(x["strategies"], key=lambda s: s["iteration_s"])["name"] == x["best"]'
check "... and what a device computes alone" grep -q \
  '^computing alone, with all gradients and updates on each device: ' \
  stdout
check "... again" silent "$distribute" "$model" --resources "$nodes" --out again --json again.json
check "... the same" cmp every/strategy.pb again/strategy.pb
builders='ps ps_load_balancing partitioned_ps uneven_partitioned_ps sharded_ps all_reduce partitioned_all_reduce
  random_axis_all_reduce parallax horovod tf_ps_load_balancing'
# Ten clusters.
mkdir clusters
cp "$nodes" clusters/example.yml
node() { # node ADDRESS GPUS CPUS MEMBER...
  printf '  - address: %s\n' "$1"
  [ -z "$2" ] || printf '    gpus: [%s]\n' "$2"
  [ -z "$3" ] || printf '    cpus: [%s]\n' "$3"
  [ $# -lt 4 ] || printf '    %s\n' "${@:4}"
}
cluster() { # cluster NAME, of nodes from the standard input
  { echo 'nodes:' && cat; } >"clusters/$1.yml"
}
node localhost 0 '' | cluster one_gpu
node 10.0.0.1 0,1,2,3 '' 'chief: true' | cluster one_node
node 10.0.0.1 '' 0,1,2 'chief: true' | cluster one_of_cpus
{ node a '' 0,1 'chief: true'; node b '' 0,1; } | cluster cpus
{ node a '' ''; node b '' '' 'chief: true'; node c '' ''; } | cluster bare
{ node a 0 '' 'chief: true' 'network_bandwidth: 10'; node b 0,1,2,3 '' 'network_bandwidth: 25'; } | cluster unlike
{ node a 0,1 0,1 'chief: true'; node b 0,1 0,1,2; } | cluster both
{ node a 0,1 '' 'chief: true'; node b '' 0,1; } | cluster servers_apart
{ node a 0 '' 'chief: true' 'ssh_config: conf'; node b 0 '' 'ssh_config: conf'; printf 'ssh:\n  conf: {port: 22}\n'; } |
  cluster ssh
# as_protoc CLUSTER: every builder's strategy has the bytes that protoc makes of it.
as_protoc() {
  local s proto="-I$source/test/io/autodist_data"
  for s in $builders; do
    silent "$distribute" "$model" --resources "$1" --strategy "$s" --out own &&
      protoc "$proto" --decode=autodist.proto.Strategy strategy.proto <own/strategy.pb >own.txt 2>"$scratch/stderr" &&
      protoc "$proto" --encode=autodist.proto.Strategy strategy.proto <own.txt >own.pb 2>"$scratch/stderr" &&
      cmp own/strategy.pb own.pb >"$scratch/stderr" && continue
    echo "$s on $1" >>"$scratch/stderr"
    return 1
  done
}
# is_read_back BUILDER: what it writes takes the same time when it is read.
is_read_back() {
  silent "$distribute" "$model" --resources "$nodes" --strategy "$1" --out own --json own.json &&
    silent "$distribute" "$model" --resources "$nodes" --strategy own/strategy.pb --json read.json &&
    "${python:-/usr/bin/python3}" -c 'import json
a, b = (json.load(open(f))["strategies"][0]["iteration_s"] for f in ("own.json", "read.json"))
assert a == b, (a, b)' 2>"$scratch/stderr"
}
for s in $builders; do
  check "$s is read back" is_read_back "$s"
done
check "there are all builders" test "$(wc -w <<<"$builders") $(ls clusters | wc -l)" = '11 10'
if command -v protoc >protoc.txt; then
  for c in clusters/*.yml; do
    check "strategies on $c are as protoc writes them" as_protoc "$c"
  done
else
  echo "skipped: strategies as protoc writes them (there is no protoc)"
fi
prime='zoo:dlrm?form=ae&batch=8&hidden=8&vocab=7919'
check "too many parts are left out" silent "$distribute" "$prime" --resources "$nodes" --json prime.json
check "... alone" json prime.json 'len(x["strategies"]) == 8
  and not any(s["name"].startswith(("partitioned", "random")) for s in x["strategies"])'
check "... and refused by name" complains 1 '7919 parts, 4096 is the most' "$distribute" "$prime" \
  --resources "$nodes" --strategy partitioned_ps
check "our own file is read" silent "$distribute" "$model" --resources "$nodes" --strategy every/strategy.json \
  --json o.json
check "... to the same time" "${python:-/usr/bin/python3}" -c 'import json
a = json.load(open("every.json"))
b = json.load(open("o.json"))
assert min(s["iteration_s"] for s in a["strategies"]) == b["strategies"][0]["iteration_s"]'
# trains DIR: ranks train the plan in DIR with losses of one process, to rounding.
trains() {
  silent "$train" "$1/plan.json" --backend reference --steps 6 --rate 0.1 --loss mean_square --check \
    --json "$1.trained.json" && json "$1.trained.json" '0 <= x["max_rel_error_vs_single"] < 1e-5'
}
# trains_near DIR LEAST MOST: likewise, with losses between so far from those of every.trained.json.
trains_near() {
  silent "$train" "$1/plan.json" --backend reference --steps 6 --rate 0.1 --loss mean_square --json "$1.trained.json" &&
    "${python:-/usr/bin/python3}" -c 'import json, sys
own, other = (json.load(open(f + ".trained.json"))["loss"] for f in (sys.argv[1], "every"))
error = max(abs(x / y - 1) for x, y in zip(own, other, strict=True))
assert float(sys.argv[2]) < error < float(sys.argv[3]), error' "$@" 2>"$scratch/stderr"
}
check "ranks train it" trains every
check "... and compressed" silent "$distribute" "$model" --resources "$nodes" --strategy parallax --compressor float16 \
  --feedback --out small
check "... nearly so" trains_near small 1e-7 1e-3
for s in parallax all_reduce partitioned_all_reduce horovod; do
  check "$s sends all of the largest elements" silent "$distribute" "$model" --resources "$nodes" --strategy $s \
    --compressor top_k --amount 1000 --out largest_$s
  check "... which are the gradients" trains largest_$s
done
check "products of narrow matrices are sent" silent "$distribute" "$model" --resources "$nodes" --strategy all_reduce \
  --chunk 1 --compressor power_sgd --amount 1 --out narrow --json narrow.json
check "... and are near" trains_near narrow 1e-4 0.3
check "what says how ranks are started goes with them" cmp "$nodes" narrow/resource_spec.yml
check "AutoDist has no word for that" json narrow.json 'x["strategy_pb"] is None'
check "... so that there is no file for it" test ! -e narrow/strategy.pb
check "a strategy with words" silent "$distribute" "$model" --resources "$nodes" --strategy ps --out words \
  --json words.json
check "... is written" json words.json 'x["strategy_pb"] == "strategy.pb"'
check "... in a file" test -s words/strategy.pb
check "... and taken away" silent "$distribute" "$model" --resources "$nodes" --strategy all_reduce \
  --compressor bfloat16 --out words
check "... where the next has none" test ! -e words/strategy.pb
check "devices that exchange alone" silent "$distribute" "$model" --resources "$nodes" --strategy ps --per-device \
  --out alone --json alone.json
check "... are kept in our file" silent "$distribute" "$model" --resources "$nodes" --strategy alone/strategy.json \
  --json alone_again.json
check "... and not in AutoDist's" silent "$distribute" "$model" --resources "$nodes" --strategy alone/strategy.pb \
  --json not_alone.json
check "... by time" "${python:-/usr/bin/python3}" -c 'import json
alone, again, nodes, other = (json.load(open(f + ".json"))["strategies"][0]["iteration_s"]
                              for f in ("alone", "alone_again", "words", "not_alone"))
assert alone == again != nodes == other'
check "stale servers are simulated" silent "$distribute" "$model" --resources "$nodes" --strategy ps --staleness 2 \
  --out stale
check "... steadily" silent "$simulate" stale/plan.json --steady
check "searches are made" silent "$distribute" "$model" --resources "$nodes" --strategy search --trials 12 \
  --out found --json found.json
check "... and told" json found.json 'len(x["strategies"]) == 15
  and x["auto"]["trials"] == len(x["auto"]["trial_s"]) == 12
  and x["auto"]["baseline_s"] == min(s["iteration_s"] for s in x["strategies"][:11])
  and (x["auto"]["first_win"] is None) == (x["auto"]["hit_rate"] == 0)
  and min(x["auto"]["trial_s"]) == next(s["iteration_s"] for s in x["strategies"] if s["name"] == "auto")'
check "... the same again" silent "$distribute" "$model" --resources "$nodes" --strategy search --trials 12 \
  --out once --json once.json
check "... in every number that is not measured" "${python:-/usr/bin/python3}" -c 'import json
a, b = (json.load(open(f)) for f in ("found.json", "once.json"))
assert 0 < a["auto"].pop("score_s") < 1 and 0 < b["auto"].pop("score_s") < 1
assert a == b'
check "ranks train what is found" trains found
check "a machine's devices compute and serve" silent "$distribute" "$model" --machine p100:2x2 --strategy auto \
  --trials 5 --json on.json --out on
check "... all of them" json on.json 'x["replicas"] == x["servers"] == 4'
# The command says that a plan takes as long as it has characters.
echo 'echo measuring; wc -m < "$1"' >length.sh
check "trials are what a command says" silent "$distribute" "$model" --resources "$nodes" --strategy auto --trials 6 \
  --trial 'sh length.sh {plan}' --json long.json --out long
check "... and the best is the shortest" json long.json 'all(s["measured_s"] > 1000 for s in x["strategies"])
  and next(s["measured_s"] for s in x["strategies"] if s["name"] == x["best"])
      <= 1.005 * min(s["measured_s"] for s in x["strategies"])
  and min(x["auto"]["trial_s"]) == next(s["measured_s"] for s in x["strategies"] if s["name"] == "auto")'
check "... three rules and three others are run again" json long.json '
  sorted(s["runs"] for s in x["strategies"]) == 8 * [1] + 6 * [6]
  and [s["name"] for s in x["strategies"][11:]] == ["auto", "auto_2", "auto_3"]
  and next(s["runs"] for s in x["strategies"] if s["name"] == x["best"]) == 6'
check "... or none" silent "$distribute" "$model" --resources "$nodes" --trial 'sh length.sh {plan}' --reruns 0 \
  --json short.json
check "... at all" json short.json 'all(s["runs"] == 1 for s in x["strategies"])'
refused() {
  complains 1 "$1" "$distribute" "${@:2}"
}
check "ranks lag behind, as one does that keeps old versions" trains stale
check "no such rule" refused "'magic'; expected all, search" "$model" --resources "$nodes" --strategy magic
check "a command without a plan" refused "'true'; expected a command with {plan}" "$model" --resources "$nodes" \
  --trial true
check "a command that fails" refused 'exit code 1 of false' "$model" --resources "$nodes" --trial 'false {plan}'
check "a command that says no seconds" refused "the last line is 'fast'" "$model" --resources "$nodes" \
  --trial 'echo fast # {plan}'
check "a cluster and a machine" refused 'and --machine, too' "$model" --resources "$nodes" --machine p100:1x2
check "neither" refused 'not given' "$model"
check "a time limit of no search" refused "budget: given with 'all'; expected a search" "$model" \
  --resources "$nodes" --budget 3s
check "a seed of a rule without chance" refused "seed: given with 'ps'; expected random_axis_all_reduce" "$model" \
  --resources "$nodes" --strategy ps --seed 5
check "a dimension before the model" refused "dim: 'a=1' for zoo:" --dim a=1 "$model" --resources "$nodes"
check "no trials" complains 2 'trials' "$distribute" "$model" --resources "$nodes" --strategy auto --trials 0
check "a seed below 0" complains 2 "seed: '-1'; expected a whole number" "$distribute" "$model" \
  --resources "$nodes" --seed -1
check "no such file" refused 'none.yml' "$model" --resources none.yml
printf 'nodes:\n  - address: a\n  - address: b\n' >no_chief.yml
check "no chief" refused 'none is the chief' "$model" --resources no_chief.yml
check "another model's strategy" refused 'none of the model' zoo:lenet --resources "$nodes" --strategy every/strategy.pb
head -c 40 every/strategy.pb >cut.pb
check "a strategy that is cut" refused 'byte ' "$model" --resources "$nodes" --strategy cut.pb
check "an amount for float16" refused 'an amount of 3' "$model" --resources "$nodes" --strategy all_reduce \
  --compressor float16 --amount 3
check "an amount and no compressor" refused "no weight has the compressor" "$model" --resources "$nodes" --strategy ps \
  --amount 3
check "neighbours of a compressor of one weight" refused '16 with top_k; expected 1' "$model" --resources "$nodes" \
  --strategy all_reduce --compressor top_k --amount 10 --chunk 16
check "compressed servers" refused 'of ps no weight has the compressor' "$model" --resources "$nodes" --strategy ps \
  --compressor float16
check "stale all-reduces" refused 'of all_reduce no weight has the staleness' "$model" --resources "$nodes" \
  --strategy all_reduce --staleness 3
check "... of a model that nothing serves" refused 'of parallax no weight has the staleness' zoo:lenet \
  --resources "$nodes" --strategy parallax --staleness 3
check "... where something is served" silent "$distribute" "$model" --resources "$nodes" --strategy parallax \
  --staleness 3 --compressor bfloat16 --json both.json
check "only rules that can are compared" silent "$distribute" "$model" --resources "$nodes" --staleness 3 \
  --json can.json
check "... by time" json can.json '[s["name"] for s in x["strategies"]] == ["ps", "ps_load_balancing", "partitioned_ps",
  "uneven_partitioned_ps", "sharded_ps", "parallax"]'
check "no rule can" refused 'no rule has what' zoo:lenet --resources "$nodes" --staleness 3 --compressor float16
check "a stale search" refused "given with 'auto'; expected none: searches" "$model" --resources "$nodes" \
  --strategy auto --staleness 2
check "a compressed search" refused "given with 'search'; expected none: searches" "$model" --resources "$nodes" \
  --strategy search --compressor float16
check "all rules fit" json every.json 'all(s["out_of_memory"] == [] and s["memory_peak_bytes"] > 0
  for s in x["strategies"])'
"${python:-/usr/bin/python3}" -c 'import json
m = json.load(open("on/plan.json"))["machine"]
m["devices"][0]["memory_bytes"] = 1000000
json.dump(m, open("little.json", "w"))'
check "a device without enough memory" silent "$distribute" zoo:lenet --machine little.json --json little_memory.json
check "... is named" grep -qE '^ps does not fit: .* needs [0-9]+ bytes more than its 1000000' "$scratch/stdout"
check "... in the JSON, too" json little_memory.json '
  any(s["out_of_memory"] for s in x["strategies"])
  and not (any(not s["out_of_memory"] for s in x["strategies"])
           and next(s["out_of_memory"] for s in x["strategies"] if s["name"] == x["best"]))
  and all(max(o["bytes_over"] for o in s["out_of_memory"]) == s["memory_peak_bytes"] - 1000000
          for s in x["strategies"] if s["out_of_memory"])'
while IFS='|' read -r flag strategy; do
  # shellcheck disable=SC2086
  check "$flag without effect on $strategy" refused "${flag%% *}: given with" "$model" --resources "$nodes" \
    --strategy "$strategy" $flag
done <<'END'
--trials 12|all
--trials 12|ps
--proxies|all_reduce
--proxies|every/strategy.json
--chunk 3|ps
--chunk 3|every/strategy.json
--per-device|horovod
--per-device|every/strategy.json
END
check "reruns of what is not run" refused '--reruns: given without --trial' "$model" --resources "$nodes" --reruns 3
check "a file and a compressor" refused 'expected none: the file says it' "$model" --resources "$nodes" \
  --strategy every/strategy.json --compressor float16
# on_processes FLAG...: two processes have the losses of two threads, bit for bit.
on_processes() {
  silent "$distribute" "$model" --resources clusters/two.yml --out pair "$@" || return
  set -- pair/plan.json --backend reference --steps 6 --rate 0.1 --loss mean_square --json
  silent "$train" "$@" threads.json &&
    silent timeout --kill-after 10 120 "$mpirun" --oversubscribe --allow-run-as-root -np 2 "$train" "$@" \
      processes.json &&
    "${python:-/usr/bin/python3}" -c 'import json
a, b = (json.load(open(f + ".json")) for f in ("threads", "processes"))
assert (a["comm"], b["comm"], b["ranks"]) == ("local", "mpi", 2)
assert len(a["loss"]) == 6 and a["loss"] == b["loss"], (a["loss"], b["loss"])' 2>"$scratch/stderr"
}
if [ "$mpirun" != - ]; then
  { node a '' '' 'chief: true'; node b '' ''; } | cluster two
  while read -r what flags; do
    # shellcheck disable=SC2086
    check "processes with $what train as threads do" on_processes $flags </dev/null
  done <<'END'
servers --strategy partitioned_ps
proxies --strategy ps_load_balancing --proxies
stale_servers --strategy uneven_partitioned_ps --staleness 2
served_rows --strategy parallax
stale_rows --strategy parallax --staleness 1 --compressor float16 --feedback
gathered_rows --strategy all_reduce --chunk 3
largest_elements --strategy partitioned_all_reduce --compressor top_k --amount 100
narrow_products --strategy all_reduce --compressor power_sgd --amount 1
END
fi
check "no result over the resources" complains 1 '--json: clusters/example.yml, which --resources names, too' \
  "$distribute" "$model" --resources clusters/example.yml,v100 --json clusters/example.yml
check "... which stay" cmp "$nodes" clusters/example.yml
{ node a '' '' 'chief: true'; node b '' ''; node c '' ''; } | cluster three
check "replicas without samples are left out" warns 'only 2 of 3 replicas have samples; a batch that 3 divides' \
  "$distribute" 'zoo:lenet?batch=4' --resources clusters/three.yml --strategy all_reduce --json three.json
check "... of what is counted" json three.json 'x["replicas"] == 2'
check "nothing is left of what failed" complains 1 'magic' "$distribute" "$model" --resources "$nodes" \
  --strategy magic --out failed
check "... at all" test ! -e failed
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
