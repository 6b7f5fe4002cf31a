#!/usr/bin/env bash
# Follows README's instructions in a bare Debian 12, and tests the packages there: checks that everything needed is
# installed, and measures the time.
# usage: fresh.sh [quickstart|test|packages]...     default: all. Of the commit that is checked out.
# Needs root and debootstrap; takes a folder of some GB below TMPDIR, and removes it.
# The last line is "N held, N failed". The exit code is 0 if none failed.
set -euo pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
refuse() { echo "fresh: $*" >&2 && exit 1; }

declare -A command=([quickstart]="bash examples/quickstart.sh" [test]="bash test/run.sh"
  [packages]="PATH=/conan/bin:\$PATH bash test/packages.sh")
declare -A most=([quickstart]=300 [test]=3600 [packages]=600) # seconds
wanted=("$@")
((${#wanted[@]} > 0)) || wanted=(quickstart test packages)
for name in "${wanted[@]}"; do
  [[ -v command[$name] ]] || refuse "'$name'; expected quickstart, test or packages"
done
((EUID == 0)) || refuse "user $(id -un); expected root, who may change the root folder"
for tool in debootstrap git unshare chroot; do
  command -v "$tool" > /dev/null || refuse "no $tool here; expected it installed"
done

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
system=$scratch/system
echo "== a bare system"
debootstrap --variant=minbase bookworm "$system" > "$scratch/log" 2>&1 ||
  { tail -n 3 "$scratch/log" >&2 && refuse "no bare system; its last lines are above"; }
cp /etc/resolv.conf /etc/hosts "$system/etc/"
git clone --quiet --no-hardlinks "$repository" "$system/unity"
# Conan is fetched out here, because a bare system may lack what pip needs to reach its index.
if [[ " ${wanted[*]} " == *" packages "* ]]; then
  mkdir -p "$system/conan/bin"
  python3 -m pip install --quiet --target "$system/conan" conan || echo "no Conan by pip; its test will be skipped"
  printf '#!/bin/sh\nPYTHONPATH=/conan exec /usr/bin/python3 -c "from conans.conan import run; run()" "$@"\n' \
    > "$system/conan/bin/conan" && chmod +x "$system/conan/bin/conan"
fi

# All that is mounted goes with the namespace, and what still runs ends with its first process.
inside() {
  unshare --mount --pid --fork --kill-child bash -c '
    set -e
    mount --rbind /dev "$1/dev"
    mount -t proc proc "$1/proc"
    mount --rbind /sys "$1/sys"
    mount -t tmpfs tmpfs "$1/tmp"
    exec chroot "$1" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
      bash -c "cd /unity && $2"' \
    inside "$system" "$1" < /dev/null
}

held=0 failed=0
count() { # WHAT CONDITION: what is said where it is false
  if (($2)); then
    held=$((held + 1))
  else
    failed=$((failed + 1))
    echo "fresh: $1" >&2
  fi
}
for name in "${wanted[@]}"; do
  echo "== ${command[$name]}"
  begun=$SECONDS code=0
  inside "${command[$name]}" || code=$?
  took=$((SECONDS - begun))
  echo "== ${command[$name]}: $took s"
  count "${command[$name]}: exit code $code; expected 0" "code == 0"
  count "${command[$name]}: $took s; expected ${most[$name]} at most" "took <= ${most[$name]}"
done
echo "$held held, $failed failed"
((failed == 0))
