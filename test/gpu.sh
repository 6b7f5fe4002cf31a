#!/usr/bin/env bash
# Runs all checks that need a GPU: builds them, runs the tests, again under compute-sanitizer, and the benchmarks.
# Prints each row of the table as soon as it is known, in case the run is stopped early, and the whole table at the end.
# Needs nvcc, g++ and fmt; checks that need anything else that is missing are skipped, with the reason.
# Arguments: stages among build, tests, train, sanitizer and bench; none: all. Later stages use what earlier ones built.
# The exit code is 0 if nothing failed, or there is no GPU. UNITY_GPU_ARCHITECTURE=90 builds for that architecture even
# without a device, so that a machine with a GPU is needed only for the runs.
set -euo pipefail

stages=("$@")
for stage in "${stages[@]}"; do
  if [[ ! $stage =~ ^(build|tests|train|sanitizer|bench)$ ]]; then
    echo "test/gpu.sh: stage $stage; expected build, tests, train, sanitizer or bench" >&2
    exit 2
  fi
done
wanted() { ((${#stages[@]} == 0)) || [[ " ${stages[*]} " == *" $1 "* ]]; }

cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${UNITY_GPU_BUILD_DIR:-$PWD/build/gpu}
mkdir -p "$build/bin" "$build/lib"
PATH=$PATH:/usr/local/cuda/bin
nvcc=${CUDACXX:-$(command -v nvcc || true)}
if [[ -z $nvcc ]]; then
  echo "no GPU here: no nvcc, expected a CUDA toolkit in PATH or /usr/local/cuda"
  exit 0
fi
nvcc=$(readlink -f "$nvcc")
toolkit=$(dirname "$(dirname "$nvcc")")

# Is there a device? Asked of the runtime, as a driver's tools may be missing where it works. 1: there is none; 2: there
# is one that cannot be used.
cat > "$build/devices.cu" << 'SOURCE'
#include <cstdio>
int main() {
  int count = 0;
  int driver = 0;
  int runtime = 0;
  const auto e = cudaGetDeviceCount(&count);
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (e == cudaErrorNoDevice || driver == 0 || (e == cudaSuccess && count == 0)) {
    std::printf("no GPU here: %s\n", driver == 0 ? "no driver" : "no device");
    return 1;
  }
  if (e == cudaErrorInsufficientDriver) {
    std::printf("a driver for CUDA %d.%d, expected one for CUDA %d.%d or later\n", driver / 1000, driver % 1000 / 10,
                runtime / 1000, runtime % 1000 / 10);
    return 2;
  }
  if (e != cudaSuccess) {
    std::printf("a GPU that cannot be used: %s\n", cudaGetErrorString(e));
    return 2;
  }
  cudaDeviceProp p{};
  cudaGetDeviceProperties(&p, 0);
  std::printf("%d %d%d %s\n", count, p.major, p.minor, p.name);
  return 0;
}
SOURCE
status=0
if [[ -n ${UNITY_GPU_ARCHITECTURE:-} ]]; then
  stages=(build)
  found="0 $UNITY_GPU_ARCHITECTURE device"
else
  "$nvcc" -o "$build/devices" "$build/devices.cu"
  found=$("$build/devices") || status=$?
fi
if ((status == 1)); then
  echo "$found"
  exit 0
elif ((status != 0)); then
  echo "test/gpu.sh: $found" >&2
  exit 1
fi
read -r count architecture name <<< "$found"
printf '%s x %s, sm_%s, %s, %s\n' "$count" "$name" "$architecture" \
  "$("$nvcc" --version | sed -n 's/.*release \([^,]*\),.*/CUDA \1/p')" "$(date -u +%F)"

table=()
failed=0
row() {
  table+=("$(printf '%-34s %s' "$1" "$2")")
  printf '>> %s\n' "${table[-1]}"
}
fail() {
  row "$1" "FAILED: $2"
  failed=1
}

# Where libraries may lie: the toolkit, Debian's folders, and what pip installs.
roots=("$toolkit" /usr)
while read -r folder; do
  for root in "$folder"/*/; do
    [[ -d $root/include && -d $root/lib ]] && roots+=("${root%/}")
  done
done < <(python3 -c 'import nvidia; print(*nvidia.__path__, sep="\n")' 2> /dev/null)
# nvcc cannot check fmt's format strings at compile time.
flags=(-std=c++20 -Iinclude -DFMT_USE_CONSTEXPR=1 -DFMT_HEADER_ONLY)
link=("-L$build/lib")
# add_library NAME HEADER: the first root that has both, for the compiler and the linker; false where none has. Wheels
# have no libNAME.so for the linker, so it gets one of its own.
add_library() {
  local root include library
  for root in "${roots[@]}"; do
    for include in "$root"/include "$root"/include/*-linux-gnu "$root"/targets/*-linux/include; do
      [[ -f $include/$2 ]] || continue
      for library in "$root"/lib64 "$root"/lib "$root"/lib/*-linux-gnu "$root"/targets/*-linux/lib; do
        library=$(compgen -G "$library/lib$1.so*" | head -1 || true)
        if [[ -n $library ]]; then
          ln -sf "$library" "$build/lib/lib$1.so"
          link+=("-l$1" -Xlinker "-rpath=$(dirname "$library")")
          [[ $include == /usr/include ]] || flags+=("-I$include")
          header=$include/$2
          return 0
        fi
      done
    done
  done
  return 1
}
version_of() {
  sed -n "s/^#define $1_MAJOR *\([0-9]*\).*/\1./p; s/^#define $1_MINOR *\([0-9]*\).*/\1/p" "$2" | tr -d '\n'
}

has_header() { echo "#include <$1>" | g++ -std=c++20 -E -x c++ - > /dev/null 2>&1; }

build_all() {
  if ! add_library cublasLt cublasLt.h; then
    echo "test/gpu.sh: no cuBLASLt, expected it in ${roots[*]}" >&2
    exit 1
  fi
  if add_library cudnn cudnn.h; then
    row cuDNN "$(version_of CUDNN "$(dirname "$header")/cudnn_version.h")"
    flags+=(-DUNITY_HAS_CUDNN)
  else
    row cuDNN none
  fi
  local compile=("$nvcc" -O3 "-arch=sm_$architecture" "${flags[@]}") jobs=() job
  "${compile[@]}" -Itest/cuda/plain test/cuda/backend.cu -o "$build/bin/test_cuda_backend" "${link[@]}" &
  jobs+=($!)
  "${compile[@]}" bench/cuda_claims.cu -o "$build/bin/bench_cuda_claims" "${link[@]}" &
  jobs+=($!)
  rm -f "$build/bin/test_nccl"
  if add_library nccl nccl.h; then
    echo '#include <catch2/catch.hpp>
int main() { return plain_catch::run_all() == 0 ? 0 : 1; }' > "$build/main.cpp"
    "$nvcc" -O1 "-arch=sm_$architecture" "${flags[@]}" -Itest/cuda/plain "$build/main.cpp" \
      test/backend/communication/nccl_communicator.cpp -o "$build/bin/test_nccl" "${link[@]}" &
    jobs+=($!)
    flags+=(-DUNITY_HAS_NCCL)
  fi
  rm -f "$build/bin/test_cuda_train"
  if has_header nlohmann/json.hpp; then
    "$nvcc" -O1 "-arch=sm_$architecture" "${flags[@]}" -Itest/cuda/plain test/cuda/train.cu \
      -o "$build/bin/test_cuda_train" "${link[@]}" &
    jobs+=($!)
  fi
  for job in "${jobs[@]}"; do
    wait "$job" || { echo "test/gpu.sh: not everything could be built, expected what is above to compile" >&2; exit 1; }
  done
  row build "sm_$architecture"
}
if wanted build || [[ ! -x $build/bin/test_cuda_backend || ! -x $build/bin/bench_cuda_claims ]]; then
  echo "== building"
  build_all
fi

if wanted tests; then
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
  if [[ ! -x $build/bin/test_nccl ]]; then
    row nccl "skipped: no NCCL"
  elif "$build/bin/test_nccl" | tee "$build/nccl.log"; then
    row "nccl, up to $count ranks" "$(tail -1 "$build/nccl.log")"
  else
    fail "nccl, up to $count ranks" "$(tail -1 "$build/nccl.log")"
  fi
fi

if wanted train; then
  echo "== training"
  if [[ ! -x $build/bin/test_cuda_train ]]; then
    row "training" "skipped: no nlohmann/json.hpp"
  elif "$build/bin/test_cuda_train" | tee "$build/train.log"; then
    row "training, up to $count ranks" "$(tail -1 "$build/train.log")"
  else
    fail "training, up to $count ranks" "$(tail -1 "$build/train.log")"
  fi
fi

if wanted sanitizer; then
  echo "== compute-sanitizer"
  if ! command -v compute-sanitizer > /dev/null; then
    row compute-sanitizer "skipped: no compute-sanitizer in PATH"
  elif compute-sanitizer --tool memcheck --error-exitcode 9 --report-api-errors no \
      "$build/bin/test_cuda_backend" --few 2>&1 | tee "$build/sanitizer.log" | grep -E "^(ok|FAILED) "; then
    row compute-sanitizer "$(tail -1 "$build/sanitizer.log")"
  else
    tail -40 "$build/sanitizer.log"
    fail compute-sanitizer "$(tail -1 "$build/sanitizer.log")"
  fi
fi

claim() {
  "$build/bin/bench_cuda_claims" "$1" | tee "$build/$1.log" || fail "$1" "$(tail -1 "$build/$1.log")"
  while read -r line; do
    row "$1" "${line#"$1" }"
  done < <(grep "^$1 " "$build/$1.log" | tr -s ' ')
}
if wanted bench; then
  echo "== benchmarks"
  claim matmul
  claim fused
  claim bert_large
  own=$(awk '$1 == "bert_large" { print $(NF - 1) }' "$build/bert_large.log")
  if eager=$(python3 bench/bert_large_eager.py 2>&1 | tail -1) && [[ $eager =~ ^[0-9.]+$ && -n $own ]]; then
    ratio=$(awk -v a="$own" -v b="$eager" 'BEGIN { printf "%.3f", a / b }')
    row "bert_large over PyTorch eager" "$ratio, at most 1.1"
    awk -v r="$ratio" 'BEGIN { exit !(r <= 1.1) }' ||
      fail "bert_large over PyTorch eager" "$ratio, expected at most 1.1"
  else
    row "bert_large over PyTorch eager" "skipped: ${eager:-no python3}"
  fi
  claim optimized
fi

echo
echo "== $name, $(date -u +%F)"
((${#table[@]} == 0)) || printf '%s\n' "${table[@]}"
exit "$failed"
