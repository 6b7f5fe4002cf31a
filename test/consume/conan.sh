#!/usr/bin/env bash
# conan.sh ROOT SCRATCH_DIR COMPILER GENERATOR: Conan makes a package of the checkout ROOT, which another project finds.
# Nothing is downloaded: packages of Debian replace the required ones. The user's Conan folder is not changed.
# Exit codes: 77 with a reason if there is no Conan 2.
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
local=(--no-remote --build=missing)
version=$(sed -n 's/^#define UNITY_VERSION_[A-Z]* //p' "$root/include/unity/core/config.hpp" | paste -sd.)
recipe=$root/cmake/packaging/conan
untouched() { [[ $(find "$recipe" | sort) == "$files" ]]; }
refused() { ! silent "$@"; }

# stand_in NAME VERSION: a package by which CMake finds what is installed.
stand_in() {
  mkdir -p "stand_in/$1"
  cat > "stand_in/$1/conanfile.py" << END
from conan import ConanFile


class stand_in(ConanFile):
    name = "$1"
    version = "$2"
    options = {"header_only": [True, False]}
    default_options = {"header_only": False}

    def package_info(self):
        self.cpp_info.includedirs = []
        self.cpp_info.set_property("cmake_find_mode", "none")
END
  silent conan export "stand_in/$1"
}

files=$(find "$recipe" | sort)
check 'Conan knows the compiler' silent conan profile detect
check 'something stands in for fmt' stand_in fmt 9.1.0
check 'something stands in for range-v3' stand_in range-v3 0.12.0
check 'something stands in for Boost' stand_in boost 1.74.0
check 'there is a package' silent conan create "$recipe" "${conf[@]}" "${local[@]}"
check "it is of version $version, and the same for each compiler" \
  grep -q "unity/$version#.*:da39a3ee5e6b4b0d3255bfef95601890afd80709 - Build" "$scratch/all" # the hash of no settings
check 'nothing is written beside the recipe' untouched
check 'C++17 is refused' refused conan create "$recipe" "${conf[@]}" "${local[@]}" -s compiler.cppstd=17
check 'C++17 is the reason' grep -q 'lower than the required C++ standard (20)' "$scratch/all"
check 'it is made again from what Conan keeps, and found' silent conan install --requires "unity/$version" \
  --build=unity/* "${conf[@]}" "${local[@]}" -g CMakeToolchain -of found
check 'a project finds it' silent cmake -S "$here/project" -B built -G "$generator" "-DCMAKE_CXX_COMPILER=$compiler" \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_TOOLCHAIN_FILE="$scratch/found/conan_toolchain.cmake" "-DVERSION=$version"
check 'it finds this one' grep -q "^unity_DIR:PATH=$CONAN_HOME/" built/CMakeCache.txt
check 'it is built' silent cmake --build built
check 'it runs' silent built/consumer
finish
