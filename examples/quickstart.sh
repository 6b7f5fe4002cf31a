#!/usr/bin/env bash
# From a fresh Debian 12 machine to an optimized ONNX model: installs what is missing, builds `optimize`, makes a real
# model, optimizes it, and prints what came of it.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
bash cmake/setup_debian.sh build

build=build/quickstart
# -O1: compiles in three quarters of the time.
cmake -S . -B "$build" -G Ninja -D CMAKE_CXX_COMPILER=g++ -D UNITY_PROGRAM_OPTIMIZATION=-O1 \
  -D UNITY_BUILD_TESTS=OFF -D UNITY_BUILD_BENCHMARKS=OFF
cmake --build "$build" --target optimize

/usr/bin/python3 examples/models/make_models.py "$build/models"
model=$build/models/resnet50.onnx
"$build/bin/optimize" "$model" --out "$build/result" --json "$build/result/result.json"

echo
echo "model:     $model"
echo "result:    $build/result/optimized.onnx (and .dot, result.json)"
