#!/usr/bin/env bash
# measure.sh [--out DIR] [NAME...]: runs what docs/performance.md quotes, one after the other, and keeps what each
# printed; but for what has a script of its own (test/run.sh, soak.sh, faults.sh, fuzz.sh and fresh.sh there), what is a
# test, what needs another engine (examples/compare_engines.py), and files of rules that others published.
#
#   NAME   of the measurements below; all of them if none is given, which takes some hours: leave the machine alone
#   DIR    build/measured if not given, without spaces; gets NAME.txt: the command, the commit, what it printed, seconds
#          and exit code (77: not possible here, and it says why)
#
# Builds the preset release first. The last line counts; the exit code is 0 where every command's was 0 or 77; that of
# slow_network is 1 while rows miss the target.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1
out=build/measured
wanted=()
while (($# > 0)); do
  case $1 in
    --out) out=${2:?--out needs a folder} && shift 2 ;;
    -*) echo "usage: measure.sh [--out DIR] [NAME...]" >&2 && exit 2 ;;
    *) wanted+=("$1") && shift ;;
  esac
done

bin=build/release/bin
slow=""
for model in "mlp?layers=4&hidden=1024&batch=128" "dlrm?form=ae&batch=512&hidden=64&vocab=5000" \
  "gpt?layers=2&hidden=256&heads=4&seq=64&vocab=2000&batch=8" "resnext50?form=ae&image=64&hidden=16&batch=16" \
  "candle_uno?form=ae&layers=3&hidden=512&batch=64"; do
  slow+=" --model zoo:$model"
done
gpt="zoo:gpt?layers=96&hidden=12288&heads=96&seq=2048&vocab=51200"
unity="$bin/parallelize --search unity --baselines none --threads 1 --budget 600s --patience 0"
optimize="$bin/optimize --cost measured:cpu --run cpu --max-expansions 1000 --timings none"
models=build/measured_models
measurements=(
  "beside_taso         $bin/bench_beside_taso"
  "candidate_rate      $bin/bench_candidate_rate"
  "term_enumeration    $bin/bench_term_enumeration"
  "search_protocols    $bin/bench_search_protocols"
  "generate_tensor     $bin/generate_rules --ops tensor --max-ops 3 --out $out/tensor.rules --json $out/tensor.json"
  "generate_tensor_2   $bin/generate_rules --ops tensor --max-ops 2 --out $out/tensor_2.rules"
  "generate_taso       $bin/generate_rules --ops taso --max-ops 4 --out $out/taso.rules --json $out/taso.json"
  "verify_standard     $bin/verify_rules $out/standard.rules"
  "verify_generated    $bin/verify_rules $out/generated.rules"
  "rules_by_model      $bin/bench_rules_by_model $out/rules_by_model.svg $out/tensor_2.rules $out/taso.rules"
  "joint_layouts       $bin/bench_joint_layouts"
  "abstraction_penalty $bin/bench_abstraction_penalty"
  "onednn_overhead     $bin/bench_onednn_overhead"
  "fused_elementwise   $bin/bench_fused_elementwise"
  "whole_graphs        $bin/bench_whole_graphs"
  "optimized_resnext50 $optimize zoo:resnext50?batch=8"
  "optimized_resnext_64 $optimize zoo:resnext50"
  "optimized_resnet50  $optimize zoo:resnet50"
  "optimized_bert      $optimize zoo:bert"
  "optimized_nasrnn    $optimize zoo:nasrnn"
  "optimized_nasrnn_32 $optimize zoo:nasrnn?batch=32"
  "mpi_overhead        mpirun --allow-run-as-root -np 2 $bin/bench_mpi_overhead"
  "real_resnet50       $bin/optimize $models/resnet50.onnx"
  "real_bert           $bin/optimize $models/bert.onnx"
  "compile_time        bash test/compile_time/measure.sh 1.5 unity/search.hpp g++ -Iinclude"
  "simulation          $bin/bench_simulation"
  "proposals           $bin/bench_proposals"
  "strategies          python3 bench/strategy_tables.py $bin/parallelize strategies --threads 1"
  "scaling             python3 bench/strategy_tables.py $bin/parallelize scaling --threads 1"
  "times               python3 bench/strategy_tables.py $bin/parallelize times --threads 1"
  "long                python3 bench/strategy_tables.py $bin/parallelize long --threads 1"
  "optimality          $bin/bench_optimality"
  "thousand_devices    $bin/bench_thousand_devices"
  "lowering_rate       $bin/bench_lowering_rate"
  "machine_mapping     $bin/bench_machine_mapping"
  "joint               python3 bench/strategy_tables.py $bin/parallelize joint --threads 1 --scale 0.25"
  "dimensions          python3 bench/strategy_tables.py $bin/parallelize dimensions --threads 1"
  "ablation            python3 bench/strategy_tables.py $bin/parallelize ablation --threads 1 --scale 0.25"
  "search_resnext50    $unity zoo:resnext50 --machine summit:8x6"
  "search_inception    $unity zoo:inception_v3 --machine summit:32x6"
  "search_gpt          $unity $gpt --machine dgx_a100:128x8 --element bfloat16 --optimizer adam"
  "training_matrix     python3 bench/training_matrix.py $bin"
  "slow_network        bash bench/slow_network.sh $bin 2 100mbit --rounds 2 --steps 6 $slow"
  "found_buckets       bash bench/slow_network.sh $bin 2 100mbit --buckets"
  "fusion_tables       python3 bench/fusion_tables.py $bin/fuse"
  "distribute_rules    python3 bench/distribute_tables.py $bin/distribute"
  "distribute_searches python3 bench/distribute_tables.py $bin/distribute --searches"
  "distributed         bash bench/slow_network.sh $bin 2 500mbit --distribute"
  "fused_training      bash bench/slow_network.sh $bin 2 500mbit --fusion"
  "fused_regions       $bin/bench_fused_regions"
  "estimator           $bin/bench_estimator"
  "dpro_search         $bin/bench_dpro_search 40"
  "executor_overhead   $bin/bench_executor_overhead"
  "vertex_partition    $bin/bench_vertex_partition"
  "segment             $bin/bench_segment"
)

names=$(printf '%s\n' "${measurements[@]}" | cut -d ' ' -f 1 | xargs)
for name in ${wanted[@]+"${wanted[@]}"}; do
  if [[ " $names " != *" $name "* ]]; then
    echo "measure.sh: no measurement $name; expected one of: $names" >&2
    exit 2
  fi
done
mkdir -p "$out" "$models"
cmake --preset release > "$out/build.log" && cmake --build --preset release >> "$out/build.log" || exit 1
/usr/bin/python3 examples/models/make_models.py "$models" >> "$out/build.log" || exit 1
for rules in standard generated; do
  "$bin/generate_rules" --shipped $rules --out "$out/$rules.rules" || exit 1
done

ran=0 skipped=0 failed=()
for measurement in "${measurements[@]}"; do
  read -r name command <<< "$measurement"
  if ((${#wanted[@]} > 0)) && [[ ! " ${wanted[*]} " =~ " $name " ]]; then
    continue
  fi
  start=$SECONDS
  printf '%s\n%s\n\n' "$ $command" "$(git describe --always --dirty 2> /dev/null)" > "$out/$name.txt"
  code=0
  read -r -a words <<< "$command"
  "${words[@]}" >> "$out/$name.txt" 2>&1 < /dev/null || code=$?
  printf '\n%d s, exit %d\n' $((SECONDS - start)) "$code" >> "$out/$name.txt"
  echo "$name: $((SECONDS - start)) s, exit $code"
  case $code in
    0) ((ran += 1)) ;;
    77) ((skipped += 1)) ;;
    *) failed+=("$name") ;;
  esac
done
echo "measured: $ran, $skipped not possible here, ${#failed[@]} failed ${failed[*]-}"
((${#failed[@]} == 0))
