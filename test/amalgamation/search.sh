#!/usr/bin/env bash
# search.sh PYTHON SCRIPT SINGLE OF_HEADERS OF_SINGLE: the file SINGLE that SCRIPT made states its version, includes no
# header of unity, and is the same when made again; the program OF_SINGLE, compiled with this file only, prints the same
# as OF_HEADERS. A single file can also be made of every header.
set -u
python=$1 script=$2 single=$3 of_headers=$4 of_single=$5
include=$(dirname "$script")/../include
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# shellcheck source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"

# One #pragma once, and no include of unity: text of rules has none, so grep can tell.
alone() { [[ $(grep -c '^#pragma once$' "$1") == 1 ]] && ! grep -n '^ *# *include *[<"]unity/' "$1"; }
silently() { silent "$@" && [[ ! -s $scratch/stderr ]]; }

version=$(sed -n 's/^#define UNITY_VERSION_[A-Z]* //p' "$include/unity/core/config.hpp" | paste -sd.)
check "$single: the first line says unity $version" grep -q "^// unity $version " <(head -1 "$single")
check "$single: includes no header of unity, and has one #pragma once" alone "$single"
check 'the file is made again' silently "$python" "$script" unity/search.hpp "$scratch/again.hpp"
check 'made again it is the same' cmp "$single" "$scratch/again.hpp"

check 'the program runs' silent "$of_headers"
mv "$scratch/stdout" "$scratch/of_headers"
check 'the program prints something' test -s "$scratch/of_headers"
check 'the program runs that was compiled with the single file' silent "$of_single"
mv "$scratch/stdout" "$scratch/of_single"
check 'both print the same' diff "$scratch/of_headers" "$scratch/of_single"

(cd "$include" && find unity -name '*.hpp' -printf '#include <%p>\n' | sort) > "$scratch/every.hpp"
count=$(wc -l < "$scratch/every.hpp")
check 'a file of every header is made' silently "$python" "$script" "$scratch/every.hpp" "$scratch/all.hpp"
check 'it includes no header of unity, and has one #pragma once' alone "$scratch/all.hpp"
check "it holds each of $count headers once" \
  test "$(grep -c '^// unity/[a-z_0-9/]*\.hpp$' "$scratch/all.hpp")" = "$count"
finish
