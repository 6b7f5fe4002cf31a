#!/usr/bin/env bash
# Tests the ways to use the library: CMake, pkg-config, a vcpkg port, a Conan recipe and the single file, each with a
# separate project. Installs missing packages (Debian 12); the exit code is that of ctest.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash cmake/setup_debian.sh test
build=$PWD/build/packages
cmake --preset test -B "$build" -D UNITY_BUILD_EXAMPLES=OFF -D UNITY_BUILD_BENCHMARKS=OFF -D UNITY_COMPILED=OFF
cmake --build "$build" --target test_of_headers test_of_single_file
ctest --test-dir "$build" -R '^(consume|amalgamation)/' --no-tests=error --output-on-failure
