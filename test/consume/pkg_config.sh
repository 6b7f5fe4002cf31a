#!/usr/bin/env bash
# pkg_config.sh PREFIX VERSION SCRATCH_DIR COMPILER FLAG...: pkg-config finds the installation of PREFIX after it was
# moved, and a program that is compiled with its flags runs.
# Exit codes: 77 with a reason if there is no pkg-config.
set -u
prefix=$1 version=$2 scratch=$3
compile=("${@:4}")
command -v pkg-config > /dev/null || { echo "skipped: no pkg-config; apt-get install pkgconf" && exit 77; }
rm -rf "$scratch" && mkdir -p "$scratch/moved here"
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../support/checks.sh
. "$here/../support/checks.sh"

cp -r "$prefix/." "$scratch/moved here"
export PKG_CONFIG_PATH="$scratch/moved here/share/pkgconfig"
prints() { silent "${@:2}" && [[ $(< "$scratch/stdout") == "$1" ]]; } # prints TEXT COMMAND...

check 'pkg-config finds nothing wrong' silent pkg-config --validate unity
check "the version is $version" prints "$version" pkg-config --modversion unity
check 'another version is not found' test ! "$(pkg-config --exists 'unity > '"$version" && echo found)"
check 'the flags can be told' silent pkg-config --cflags --libs unity
# A folder with a blank in its name is written for the shell.
eval "flags=($(< "$scratch/stdout"))"
# shellcheck disable=SC2154  # flags is set by eval
folder=$(printf '%s\n' "${flags[@]}" | sed -n 's/^-I//p')
check 'its headers are where things were moved' \
  test "$(realpath "$folder")" = "$(realpath "$scratch/moved here/include")"
check 'a program compiles with them' \
  silent "${compile[@]}" -std=c++20 "$here/project/main.cpp" "${flags[@]}" -o "$scratch/program"
check 'the program prints the version' prints "unity $version" "$scratch/program"
finish
