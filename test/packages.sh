#!/usr/bin/env bash
# The ways in which others get at the library: CMake, pkg-config, a vcpkg port, a Conan recipe and the single file, each
# tried with a project of its own. Installs what is missing (Debian 12).
# The last line is "N passed, N failed", as of test/run.sh; the exit code is 0 when none failed.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash cmake/setup_debian.sh test
build=$PWD/build/packages
cmake --preset test -B "$build" -D UNITY_BUILD_EXAMPLES=OFF -D UNITY_BUILD_BENCHMARKS=OFF -D UNITY_COMPILED=OFF
cmake --build "$build" --target test_of_headers test_of_single_file
report=$build/report.xml
rm -f "$report"
ctest --test-dir "$build" -R '^(consume|amalgamation)/' --output-on-failure --output-junit "$report" || true

all=$(grep -c '<testcase ' "$report")
passed=$(grep -c '<testcase .*status="run"' "$report" || true)
skipped=$(grep -c '<skipped message="SKIP_' "$report" || true)
failed=$((all - passed - skipped))
((skipped == 0)) || echo "$skipped skipped"
echo "$passed passed, $failed failed"
((failed == 0 && passed > 0))
