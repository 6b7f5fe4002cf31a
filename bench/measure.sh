#!/usr/bin/env bash
# measure.sh [--out DIR] [--python PYTHON] [--list] [alone | shared | NAME]...: runs the commands of
# docs/performance.md, one after the other, and keeps what each printed. Not included: what has a script of its own
# (test/run.sh, soak.sh, faults.sh, fuzz.sh, fresh.sh and gpu.sh there), and what is a test. --list: prints the names
# and commands.
#
#   alone   all measurements of time, some five hours: nothing else may run
#   shared  all measurements that give counts, simulated results, or results of searches with a budget, some six hours
#           on one thread: another process on one core is fine
#   NAME    one measurement
#   DIR     build/measured if not given, without spaces; gets NAME.txt: the command, the commit, what it printed,
#           seconds and exit code (77: not possible here, and it says why)
#   PYTHON  an interpreter with numpy, torch, torchvision, transformers, onnx, onnxscript, onnxsim, onnxruntime,
#           torch_geometric and nnsmith; python3 if not given. DGL needs an older PyTorch, so the variable DGL_PYTHON
#           names an interpreter that has both; its row is left out where that is not set
#
# All are run if none is given. A measurement that ended in DIR on the same commit of include/ and examples/ is not
# repeated, so this can be interrupted and called again; delete NAME.txt to repeat one. Builds the preset release first.
# The last line counts; the exit code is 0 where every command's was 0 or 77. Scripts that compare with measurements
# exit with 1 while rows miss a target, and verify_rules does where it refutes a rule of others.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1
out=build/measured
wanted=()
python=python3
list=""
while (($# > 0)); do
  case $1 in
    --out) out=${2:?--out needs a folder} && shift 2 ;;
    --python) python=${2:?--python needs an interpreter} && shift 2 ;;
    --list) list=1 && shift ;;
    -*) echo "usage: measure.sh [--out DIR] [--python PYTHON] [--list] [alone | shared | NAME]..." >&2 && exit 2 ;;
    *) wanted+=("$1") && shift ;;
  esac
done

bin=build/release/bin
export UNITY_TARGET=none # where no engine is named, optimize would choose by one that python3 happens to have
slow=""
for model in "mlp?layers=4&hidden=1024&batch=128" "dlrm?form=ae&batch=512&hidden=64&vocab=5000" \
  "gpt?layers=2&hidden=256&heads=4&seq=64&vocab=2000&batch=8" "resnext50?form=ae&image=64&hidden=16&batch=16" \
  "candle_uno?form=ae&layers=3&hidden=512&batch=64"; do
  slow+=" --model zoo:$model"
done
with_torch() { # with_torch SCRIPT...: runs it with an interpreter that has PyTorch and onnxruntime
  "$python" -c 'import torch, onnxruntime' || { echo "skipped: $python lacks torch or onnxruntime" && return 77; }
  "$python" "$@"
}
# Of the library and the programs, so that results stay valid where only a benchmark or a page changed.
commit=$(git log -1 --format=%h -- include examples 2> /dev/null)
git diff --quiet HEAD -- include examples 2> /dev/null || commit+=-dirty
gpt3="layers=96&hidden=12288&heads=96&seq=2048&vocab=51200"
statement="zoo:gpt?form=training&$gpt3 --plan megatron:search,batch=1536 --element bfloat16 --optimizer adam"
frontier="$bin/parallelize zoo:bert?form=ae&layers=12&batch=8 --machine p100:1x4 --seed 1 --threads 1"
optimize="$bin/optimize --cost measured:cpu --run cpu --max-expansions 1000 --timings none"
kernels="zoo:transformer?layers=2&hidden=256&heads=4&seq=64&vocab=2000&batch=4"
kernels+=" zoo:rnnlm?layers=2&hidden=256&seq=8&vocab=2000&batch=16"
kernels+=" zoo:bert?layers=2&hidden=256&heads=4&seq=64&vocab=2000&batch=4"
kernels+=" zoo:reformer?layers=2&hidden=256&heads=4&seq=256&vocab=2000&batch=2"
kernels+=" zoo:gpt?layers=2&hidden=128&heads=4&seq=128&vocab=1000&batch=2 zoo:resnet50?batch=2&image=112"
kernels+=" zoo:inception_v3?batch=1&image=149 zoo:vgg19?batch=1 zoo:vgg19?batch=2 zoo:vgg19?batch=3"
models=build/measured_models
exports=build/measured_exports
joint="$python bench/joint_tables.py $bin/parallelize --results $out/joint_$commit.jsonl"
alone=(
  "beside_taso         $bin/bench_beside_taso"
  "candidate_rate      $bin/bench_candidate_rate"
  "term_enumeration    $bin/bench_term_enumeration"
  "search_protocols    $bin/bench_search_protocols"
  "generate_tensor     $bin/generate_rules --ops tensor --max-ops 3 --out $out/tensor.rules --json $out/tensor.json"
  "generate_tensor_2   $bin/generate_rules --ops tensor --max-ops 2 --out $out/tensor_2.rules"
  "generate_taso       $bin/generate_rules --ops taso --max-ops 4 --out $out/taso.rules --json $out/taso.json"
  "verify_standard     $bin/verify_rules $out/standard.rules"
  "verify_generated    $bin/verify_rules $out/generated.rules"
  "verify_taso         $bin/verify_rules ../shared/rules/taso_graph_subst.pb"
  "verify_taso_one     $bin/verify_rules ../shared/rules/taso_graph_subst.pb --groups one"
  "verify_flexflow     $bin/verify_rules ../shared/rules/flexflow_graph_subst_3_v2.json"
  "derive_rules        $bin/generate_rules --derive all --out $out/derived.rules"
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
  "real_resnet50       $bin/optimize $models/resnet50.onnx --patience 1000000"
  "real_bert           $bin/optimize $models/bert.onnx --patience 1000000"
  "compile_time        bash test/compile_time/measure.sh 1.5 unity/search.hpp g++ -Iinclude"
  "simulation          $bin/bench_simulation"
  "proposals           $bin/bench_proposals"
  "times               $python bench/strategy_tables.py $bin/parallelize times --threads 1"
  "optimality          $bin/bench_optimality"
  "thousand_devices    $bin/bench_thousand_devices"
  "lowering_rate       $bin/bench_lowering_rate"
  "machine_mapping     $bin/bench_machine_mapping"
  "statements          $bin/simulate $statement --machine dgx_a100_80:128x8 --cost kernels"
  "statements_analytic $bin/simulate $statement --machine dgx_a100_80:128x8 --cost analytic"
  "frontier            $frontier --search unity --optimizer adam --frontier --baselines data --max-proposals 3000"
  "slow_network        bash bench/slow_network.sh $bin 2 100mbit --rounds 3 --steps 6 $slow"
  "found_buckets       bash bench/slow_network.sh $bin 2 100mbit --buckets --rounds 3 --steps 10"
  "distributed         bash bench/slow_network.sh $bin 2 500mbit --distribute --rounds 1 --steps 8 --run-trials 24"
  "fused_training      bash bench/slow_network.sh $bin 2 500mbit --fusion --rounds 2"
  "fusion_tables       $python bench/fusion_tables.py $bin/fuse --budget 10s"
  "fused_regions       $bin/bench_fused_regions"
  "estimator           $bin/bench_estimator"
  "fused_kernels       $bin/measure_kernels $kernels --samples 3000 --seconds 0.008 --seed 5 --out $out/kernels.bin"
  "fused_estimator     $bin/train_estimator $out/kernels.bin --threads 1 --budget 90s --out $out/estimator.bin"
  "dpro_search         $bin/bench_dpro_search 40"
  "replay_published    $python bench/replay_tables.py $bin published"
  "replay_trained      $python bench/replay_tables.py $bin trained"
  "replay_large        $python bench/replay_tables.py $bin large"
  "executor_overhead   $bin/bench_executor_overhead"
  "recomputation       $python bench/recomputation.py $bin"
  "memory_passes       $python bench/memory_passes.py $bin"
  "memory_moves        $python bench/memory_moves.py $bin --steps 4"
  "memory_plans        $bin/bench_memory_plans"
  "rank_lowering       $bin/bench_rank_lowering"
  "vertex_partition    $bin/bench_vertex_partition"
  "segment             $bin/bench_segment"
  "graph_partitions    $python bench/graph_partitions.py $bin/train_graph --models gcn"
  "graph_epoch         with_torch bench/graph_epoch.py $bin/train_graph --epochs 3 --rounds 1 --peer torch=$python \
                       --peer pyg=$python${DGL_PYTHON:+ --peer dgl=$DGL_PYTHON}"
  "exports             with_torch examples/models/export_models.py $exports/suite --exporter script --batch 1 \
                       --layers 4 --width 256 --sequence 128"
  "engines             with_torch examples/compare_engines.py $exports/suite --suite --threads 1 --seconds 12 \
                       --optimize $bin/optimize -- --python $python"
  "engines_2           with_torch examples/compare_engines.py $exports/suite --suite --threads 2 --seconds 8 \
                       --optimize $bin/optimize -- --python $python"
)
shared=(
  "rules_by_model      $bin/bench_rules_by_model $out/rules_by_model.svg $out/tensor_2.rules $out/taso.rules"
  "joint_layouts       $bin/bench_joint_layouts"
  "fit_kernels         $bin/fit_kernels ../shared/data/kernels --unseen test/data/kernels_h100.csv.gz"
  "published           $python bench/published_iterations.py $bin/simulate --cost kernels"
  "published_analytic  $python bench/published_iterations.py $bin/simulate --cost analytic"
  "published_h100      $python bench/published_iterations.py $bin/simulate --cost kernels \
                       --rows bench/torch_iterations_h100.csv"
  "nccl                $bin/calibrate --collectives ../shared/data/collectives/v100_node.csv --out $out/v100_node.json"
  "strategies          $python bench/strategy_tables.py $bin/parallelize strategies --threads 1"
  "scaling             $python bench/strategy_tables.py $bin/parallelize scaling --threads 1"
  "long                $python bench/strategy_tables.py $bin/parallelize long --threads 1"
  "joint               $joint joint --seconds 60"
  "order               $joint order --seconds 60"
  "monotone            $joint monotone --seconds 60"
  "ablation            $joint ablation --seconds 60"
  "ablation_networks   $joint ablation --seconds 60 --models inception_v3,bert_large,nasnet_a --nodes 1"
  "budgets             $joint times --seconds 60"
  "training_matrix     $python bench/training_matrix.py $bin"
  "distribute_rules    $python bench/distribute_tables.py $bin/distribute"
  "distribute_unequal  $python bench/distribute_tables.py $bin/distribute --models VGG-16,ResNet-101,DLRM \
                       --clusters B9,B10,B11,B12"
  "distribute_searches $python bench/distribute_tables.py $bin/distribute --searches"
  "synchronization     $python bench/synchronization.py $bin"
  "graph_accuracy      bash bench/graph_accuracy.sh $bin ../shared/data/graphs 10"
  "graphs_simulated    $python bench/graph_partitions.py $bin/train_graph --models gcn --machine p100:16x4"
  "graphs_datasets     $python bench/graph_partitions.py $bin/train_graph --models gcn --datasets --machine p100:4x4"
  "exports_real        with_torch examples/models/export_models.py $exports/real bert gpt2 t5 vit_b_16 convnext_tiny \
                       dlrm --exporter script --layers 12 --width 768 --sequence 512 --batch 2 --open-batch"
  "real                $joint real --seconds 30 --onnx $exports/real --samples samples"
  "backend_tests       with_torch examples/models/backend_tests.py --optimize $bin/optimize"
  "random_graphs       with_torch examples/models/random_graphs.py --optimize $bin/optimize --count 700 --seed 1000"
  "open_sizes          with_torch examples/models/open_sizes.py $exports/open --optimize $bin/optimize"
)
measurements=("${alone[@]}" "${shared[@]}")

names_of() { printf '%s\n' "$@" | cut -d ' ' -f 1 | xargs; }
names=$(names_of "${measurements[@]}")
chosen=" "
((${#wanted[@]} > 0)) || wanted=(alone shared)
for name in "${wanted[@]}"; do
  case $name in
    alone) chosen+="$(names_of "${alone[@]}") " ;;
    shared) chosen+="$(names_of "${shared[@]}") " ;;
    *)
      [[ " $names " == *" $name "* ]] || {
        echo "measure.sh: no measurement $name; expected alone, shared or one of: $names" >&2
        exit 2
      }
      chosen+="$name "
      ;;
  esac
done
run_chosen() { # run_chosen COMMAND...: calls COMMAND NAME WORD... for each chosen measurement
  local measurement name words
  for measurement in "${measurements[@]}"; do
    read -r -a words <<< "$measurement"
    name=${words[0]}
    [[ $chosen != *" $name "* ]] || "$@" "${words[@]}"
  done
}
[[ -z $list ]] || { run_chosen echo && exit; }

mkdir -p "$out" "$models" "$exports"/{suite,real,open}
cmake --preset release > "$out/build.log" && cmake --build --preset release >> "$out/build.log" || exit 1
/usr/bin/python3 examples/models/make_models.py "$models" >> "$out/build.log" || exit 1
for rules in standard generated; do
  "$bin/generate_rules" --shipped $rules --out "$out/$rules.rules" || exit 1
done

done_before() { # done_before FILE: it is of this commit, and its command was possible and not killed
  [[ -f $1 && $(sed -n 2p "$1") == "$commit" && $(tail -n 1 "$1") =~ ^[0-9]+\ s,\ exit\ ([0-9]+)$ ]] &&
    ((BASH_REMATCH[1] != 77 && BASH_REMATCH[1] < 128))
}

ran=0 before=0 skipped=0 failed=()
measure() { # measure NAME COMMAND...
  local name=$1 start=$SECONDS code=0
  shift
  done_before "$out/$name.txt" && ((before += 1)) && return
  printf '%s\n%s\n\n' "$ $*" "$commit" > "$out/$name.txt"
  "$@" >> "$out/$name.txt" 2>&1 < /dev/null || code=$?
  printf '\n%d s, exit %d\n' $((SECONDS - start)) "$code" >> "$out/$name.txt"
  echo "$name: $((SECONDS - start)) s, exit $code"
  case $code in
    0) ((ran += 1)) ;;
    77) ((skipped += 1)) ;;
    *) failed+=("$name") ;;
  esac
}
run_chosen measure
echo "measured: $ran, $before before, $skipped not possible here, ${#failed[@]} failed ${failed[*]-}"
((${#failed[@]} == 0))
