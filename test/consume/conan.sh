#!/usr/bin/env bash
# conan.sh ROOT SCRATCH_DIR COMPILER GENERATOR: Conan makes a package of the checkout ROOT, and finds it for the project
# of someone else. Nothing is fetched, and Conan's own folder is left alone.
# Exit codes: 77 with a reason where there is no Conan 2.
set -u
root=$1 scratch=$2 compiler=$3 generator=$4
rm -rf "$scratch" && mkdir -p "$scratch"
export CONAN_HOME=$scratch/home
if [[ $(conan --version 2> /dev/null) != "Conan version 2."* ]]; then
  echo "skipped: no Conan 2; pip install conan"
  exit 77
fi
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../support/checks.sh
. "$here/../support/checks.sh"
cd "$scratch" || exit 1
conf=(-c "tools.cmake.cmaketoolchain:generator=$generator" -s compiler.cppstd=20)
version=$(sed -n 's/^#define UNITY_VERSION_[A-Z]* //p' "$root/include/unity/core/config.hpp" | paste -sd.)
recipe=$root/cmake/packaging/conan
untouched() { [[ $(find "$recipe" | sort) == "$files" ]]; }
refused() { ! silent "$@"; }

files=$(find "$recipe" | sort)
check 'Conan knows the compiler' silent conan profile detect
check 'there is a package' silent conan create "$recipe" "${conf[@]}"
check "it is of version $version, and the same for each compiler" \
  grep -q "unity/$version#.*:da39a3ee5e6b4b0d3255bfef95601890afd80709 - Build" "$scratch/all" # the hash of no settings
check 'nothing is written beside the recipe' untouched
check 'C++17 is refused' refused conan create "$recipe" "${conf[@]}" -s compiler.cppstd=17
check 'C++17 is the reason' grep -q 'lower than the required C++ standard (20)' "$scratch/all"
check 'it is made again from what Conan keeps, and found' silent conan install --requires "unity/$version" \
  --build=unity/* "${conf[@]}" -g CMakeToolchain -of found
check 'a project finds it' silent cmake -S "$here/project" -B built -G "$generator" "-DCMAKE_CXX_COMPILER=$compiler" \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_TOOLCHAIN_FILE="$scratch/found/conan_toolchain.cmake" "-DVERSION=$version"
check 'it finds this one' grep -q "^unity_DIR:PATH=$CONAN_HOME/" built/CMakeCache.txt
check 'it is built' silent cmake --build built
check 'it runs' silent built/consumer
finish
