#!/usr/bin/env bash
# setup_debian.sh build|test: installs missing packages on Debian 12, and nothing else.
#   build  packages for the library, the examples and the models
#   test   also the second compiler, the test and benchmark libraries, and tools
set -euo pipefail

build_packages=(g++ cmake ninja-build libarchive-dev libboost-graph-dev libcli11-dev libdnnl-dev
  libeigen3-dev libfmt-dev libmetis-dev libonnx-dev libprotobuf-dev librange-v3-dev libsimdjson-dev libyaml-cpp-dev
  libz3-dev nlohmann-json3-dev graphviz python3 python3-numpy python3-onnx)
test_packages=("${build_packages[@]}" catch2 ccache clang-19 lld-19 llvm-19 gcovr libbenchmark-dev
  libclang-rt-19-dev iproute2 libopenmpi-dev openmpi-bin pkgconf doxygen valgrind protobuf-compiler python3-clang-19
  python3-jsonschema python3-pil chromium)

case ${1-} in
  build) wanted=("${build_packages[@]}") ;;
  test) wanted=("${test_packages[@]}") ;;
  *) echo "usage: setup_debian.sh build|test" >&2 && exit 2 ;;
esac

if ! command -v apt-get > /dev/null; then
  echo "setup: no apt-get here; going on with what is installed. On Debian 12 these would be: ${wanted[*]}" >&2
  exit 0
fi

missing=()
for package in "${wanted[@]}"; do
  if [[ $(dpkg-query --show --showformat '${db:Status-Status}' "$package" 2> /dev/null || true) != installed ]]; then
    missing+=("$package")
  fi
done
if ((${#missing[@]} == 0)); then
  echo "setup: all ${#wanted[@]} packages are there"
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo > /dev/null; then
    echo "setup: not root and no sudo; install these first: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

# Runs apt-get as root; env, because sudo drops the environment.
apt() { ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" < /dev/null; }

echo "setup: installing ${missing[*]}"
apt update
apt install --no-install-recommends "${missing[@]}"
echo "setup: installed ${#missing[@]} packages"
