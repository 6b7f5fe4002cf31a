#!/usr/bin/env bash
# odd.sh PYTHON SCRIPT COMPILER FLAG...: odd.cpp does the same with the headers of odd/ and with the single file that
# SCRIPT makes of them; SCRIPT reports bad input in one line, and leaves existing files unchanged.
set -u
python=$1 script=$2
compile=("${@:3}")
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# shellcheck source=../support/checks.sh
. "$here/../support/checks.sh"

mkdir -p "$scratch/single/unity"
check 'the file is made' silent "$python" "$script" unity/odd.hpp "$scratch/single/unity/odd.hpp" --include "$here/odd"
for folder in "$here/odd" "$scratch/single"; do
  for wish in -UODD_WISH -DODD_WISH -DODD_OTHER_WISH "-DODD_WISH -DODD_OTHER_WISH"; do
    # shellcheck disable=SC2086  # two definitions are two arguments
    check "odd.cpp compiles with $wish and $folder" \
      silent "${compile[@]}" $wish "-I$folder" "$here/odd.cpp" -o "$scratch/odd"
    check "odd.cpp holds with $wish and $folder" silent "$scratch/odd"
    rm -f "$scratch/odd"
  done
done

# refuses EXPECTED ARGUMENT...: exit code 1, one line with EXPECTED, and nothing written.
refuses() {
  local before  # names and inodes, not times: a refused file may have been begun and taken away beside the others
  before=$(ls -A -i "$scratch/out")
  check "refused with: $1" complains 1 "$1" "$python" "$script" "${@:2}"
  check "nothing is written with: $1" test "$(ls -A -i "$scratch/out")$(< "$scratch/out/old.hpp")" = "${before}old"
}
# library NAME TEXT: a library with a header of that text, unity/it.hpp.
library() {
  mkdir -p "$scratch/$1/unity"
  cp -r "$here/odd/unity/core" "$scratch/$1/unity"
  printf '%b' "$2" > "$scratch/$1/unity/it.hpp"
}
mkdir -p "$scratch/out/folder"
echo old > "$scratch/out/old.hpp"
out=$scratch/out/old.hpp
refuses "unity/no_such.hpp: no such header" unity/no_such.hpp "$out"
refuses "cannot be written: No such file" unity/search.hpp "$scratch/out/no_such_folder/new.hpp"
refuses "folder: not a regular file" unity/search.hpp "$scratch/out/folder"
printf '#!/usr/bin/env bash\nulimit -f 8\nexec "%s" "$@"\n' "$python" > "$scratch/python_of_small_files"
chmod +x "$scratch/python_of_small_files"
python=$scratch/python_of_small_files refuses "old.hpp: cannot be written: File too large" unity/search.hpp "$out"
library missing '#pragma once\n#include <unity/nothing.hpp>\n'
refuses "unity/it.hpp:2: includes unity/nothing.hpp, which is not in" unity/it.hpp "$out" --include "$scratch/missing"
library macro '#include HEADER\n'
refuses "unity/it.hpp:1: an #include of HEADER" unity/it.hpp "$out" --include "$scratch/macro"
library asks '\n#if 1 && __has_include(<unity/core/config.hpp>)\n#endif\n'
refuses "unity/it.hpp:2: __has_include" unity/it.hpp "$out" --include "$scratch/asks"
library open '#if 1\n'
refuses "unity/it.hpp: an #if without an #endif" unity/it.hpp "$out" --include "$scratch/open"
library latin '// \0351\n'
refuses "unity/it.hpp: not UTF-8" unity/it.hpp "$out" --include "$scratch/latin"
library no_version ''
: > "$scratch/no_version/unity/core/config.hpp"
refuses "config.hpp: no version" unity/it.hpp "$out" --include "$scratch/no_version"
finish
