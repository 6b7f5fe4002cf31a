#!/usr/bin/env bash
# Everything that needs a GPU, in one command: builds it, runs the tests, once more under compute-sanitizer, and the
# benchmarks, and prints a short table last. Needs nvcc and g++; what else is missing is skipped, with the reason.
# The exit code is 0 when nothing failed, and where there is no GPU.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${UNITY_GPU_BUILD_DIR:-$PWD/build/gpu}
mkdir -p "$build/bin"
PATH=$PATH:/usr/local/cuda/bin
nvcc=${CUDACXX:-$(command -v nvcc || true)}

# Is there a device? Asked of the runtime, as a driver's tools may be missing where it works.
if [[ -z $nvcc ]]; then
  echo "no GPU here: no nvcc, expected a CUDA toolkit in PATH or /usr/local/cuda"
  exit 0
fi
cat > "$build/devices.cu" << 'SOURCE'
#include <cstdio>
int main() {
  int count = 0;
  const auto e = cudaGetDeviceCount(&count);
  if (e != cudaSuccess || count == 0) {
    std::printf("no GPU here: %s\n", e == cudaSuccess ? "no device" : cudaGetErrorString(e));
    return 1;
  }
  cudaDeviceProp p{};
  cudaGetDeviceProperties(&p, 0);
  std::printf("%d %d%d %s\n", count, p.major, p.minor, p.name);
  return 0;
}
SOURCE
"$nvcc" -o "$build/devices" "$build/devices.cu"
if ! found=$("$build/devices"); then
  echo "$found"
  exit 0
fi
read -r count architecture name <<< "$found"
echo "$count x $name, sm_$architecture, $("$nvcc" --version | sed -n 's/.*release \([^,]*\),.*/CUDA \1/p'), $(date -u +%F)"

table=()
failed=0
row() { table+=("$(printf '%-34s %s' "$1" "$2")"); }
fail() {
  row "$1" "FAILED: $2"
  failed=1
}

# By CMake as everything else; by nvcc alone where CMake is missing or too old.
by_cmake() {
  command -v cmake > /dev/null &&
    cmake -S . -B "$build/cmake" -D CMAKE_BUILD_TYPE=Release -D CMAKE_CUDA_ARCHITECTURES="$architecture" \
      -D CMAKE_CUDA_COMPILER="$nvcc" -D UNITY_BUILD_FUZZERS=OFF > "$build/configure.log" 2>&1 &&
    cmake --build "$build/cmake" --target test_cuda_backend bench_cuda_claims -j 4 &&
    cp "$build/cmake/test/cuda/test_cuda_backend" "$build/cmake/bin/bench_cuda_claims" "$build/bin/"
}
by_nvcc() {
  local folder include=() link=(-lcublasLt)
  for folder in "$(dirname "$(dirname "$nvcc")")"/{lib64,lib}; do
    link+=("-L$folder" -Xlinker "-rpath=$folder")
    if compgen -G "$folder/libcudnn.so" > /dev/null; then
      link+=(-lcudnn)
      include=(-DUNITY_HAS_CUDNN)
    fi
  done
  local flags=(-std=c++20 -O3 "-arch=sm_$architecture" -Iinclude "${include[@]}")
  "$nvcc" "${flags[@]}" -Itest/cuda/plain test/cuda/backend.cu -o "$build/bin/test_cuda_backend" "${link[@]}" &&
    "$nvcc" "${flags[@]}" bench/cuda_claims.cu -o "$build/bin/bench_cuda_claims" "${link[@]}"
}
echo "== building"
if by_cmake; then
  row build "by CMake"
elif by_nvcc; then
  row build "by nvcc, as CMake did not (see $build/configure.log)"
else
  echo "test/gpu.sh: nothing could be built, expected what is above to compile" >&2
  exit 1
fi

echo "== tests"
if "$build/bin/test_cuda_backend" | tee "$build/tests.log"; then
  row tests "$(tail -1 "$build/tests.log")"
else
  fail tests "$(tail -1 "$build/tests.log")"
fi
if "$build/bin/test_cuda_backend" --faults; then
  row "a faulting kernel" "is an error that names it"
else
  fail "a faulting kernel" "see above"
fi

echo "== compute-sanitizer"
if command -v compute-sanitizer > /dev/null; then
  if compute-sanitizer --tool memcheck --error-exitcode 9 --report-api-errors no "$build/bin/test_cuda_backend" --few \
      > "$build/sanitizer.log" 2>&1; then
    row compute-sanitizer "$(tail -1 "$build/sanitizer.log")"
  else
    tail -40 "$build/sanitizer.log"
    fail compute-sanitizer "$(tail -1 "$build/sanitizer.log")"
  fi
else
  row compute-sanitizer "skipped: no compute-sanitizer in PATH"
fi

echo "== benchmarks"
for claim in matmul fused bert_large optimized; do
  "$build/bin/bench_cuda_claims" "$claim" | tee "$build/$claim.log" || fail "$claim" "$(tail -1 "$build/$claim.log")"
  while read -r line; do
    row "$claim" "${line#"$claim" }"
  done < <(grep "^$claim " "$build/$claim.log" | tr -s ' ')
done

own=$(awk '$1 == "bert_large" { print $(NF - 1) }' "$build/bert_large.log")
if eager=$(python3 bench/bert_large_eager.py 2>&1 | tail -1) && [[ $eager =~ ^[0-9.]+$ && -n $own ]]; then
  ratio=$(awk -v a="$own" -v b="$eager" 'BEGIN { printf "%.3f", a / b }')
  row "bert_large over PyTorch eager" "$ratio, at most 1.1"
  awk -v r="$ratio" 'BEGIN { exit !(r <= 1.1) }' || fail "bert_large over PyTorch eager" "$ratio, expected at most 1.1"
else
  row "bert_large over PyTorch eager" "skipped: ${eager:-no python3}"
fi

if ((count > 1)); then
  if [[ -d $build/cmake ]] && cmake --build "$build/cmake" --target test_backend -j 4 > "$build/nccl.log" 2>&1; then
    suite=$(find "$build/cmake" -name test_backend -type f -perm -u+x | head -1)
    if "$suite" --filenames-as-tags "[#nccl_communicator]" 2>&1 | tee -a "$build/nccl.log"; then
      row nccl "$(grep . "$build/nccl.log" | tail -1)"
    else
      fail nccl "$(grep . "$build/nccl.log" | tail -1)"
    fi
  else
    row nccl "skipped: its suite was not built (see $build/nccl.log)"
  fi
else
  row nccl "skipped: one GPU"
fi

echo
echo "== $name, $(date -u +%F)"
printf '%s\n' "${table[@]}"
exit "$failed"
