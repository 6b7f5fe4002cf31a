#!/usr/bin/env bash
# `train_estimator`: its output and files; a resumed run equals an uninterrupted one; the number of threads does not
# matter; error messages.
# usage: train_estimator.sh PROGRAM MAKE_KERNELS SCRATCH_DIR
set -u
program=$1 make_kernels=$2 scratch=$3
rm -rf "$scratch" && mkdir -p "$scratch"
. "$(dirname "$0")/../support/checks.sh"
cd "$scratch" || exit 1
few="--hidden 16 --layers 1"

check "samples are made" "$make_kernels" 600 5 kernels
check "a network is trained" silent "$program" kernels $few --epochs 12 --threads 2 --out whole --json whole.json
check "it is better than both" json whole.json 'x["accuracy"]["network"]["p90"] < x["accuracy"]["linear"]["p90"] and
  x["accuracy"]["network"]["median"] < x["accuracy"]["sum_of_parts"]["median"] and x["stopped"] == "epochs" and
  x["epochs"] == 12 and x["samples"] == 600 and 30 < x["tested"] < 90 and
  sum(n["samples"] for n in x["networks"]) == x["tested"]'
check "a table says so" grep -qE '^all +[0-9]+ network +[0-9.]+ ' stdout

check "threads do not matter" silent "$program" kernels $few --epochs 12 --threads 1 --out alone
check "... to a bit" cmp whole alone

check "a run stops" silent "$program" kernels $few --epochs 12 --budget 0s --checkpoint state --out stopped \
  --json s.json
check "... at once" json s.json 'x["stopped"] == "budget" and x["epochs"] == 0'
check "... and goes on" silent "$program" kernels $few --epochs 12 --checkpoint state --resume --out resumed
check "... to the same weights" cmp whole resumed

check "a network is left out" silent "$program" kernels $few --epochs 3 --holdout net2 --out held --json held.json
check "... and judges" json held.json '[n["name"] for n in x["networks"]] == ["net2"] and x["holdout"] == "net2"'
check "own times are left out" silent "$program" kernels $few --epochs 3 --without-times --out blind --json blind.json
check "... as it says" json blind.json 'not x["own_times"]'

refused() { complains 1 "$1" "$program" "${@:2}" && [ ! -e none ]; }
check "no file" refused 'missing: cannot be read' missing --out none
head -c 1000 kernels >short
check "a short one" refused 'short: is cut short at byte 1000; expected' short --out none
sed '1s/kernels 1/kernels 2/' kernels >later
check "another version" refused 'later: another version; expected "unity kernels 1"' later --out none
check "no such network" refused 'holdout: 0 of 600 samples are of network "vgg"' kernels --holdout vgg --out none
check "a checkpoint that cannot be written" refused 'none/state.*cannot be created' kernels $few --epochs 13 \
  --checkpoint none/state --out none_of_it
check "another run" refused 'state: a checkpoint of a run with other settings or samples' kernels $few --epochs 13 \
  --checkpoint state --resume --out none
check "odd heads" refused '^train_estimator: --hidden: 6; expected a multiple of 4 heads' kernels --hidden 6 --out none
check "nowhere to write" refused 'nowhere' kernels --epochs 1 --out nowhere/none
check "no budget" refused "budget: 'soon'" kernels --budget soon --out none
check "a seed below 0" complains 2 "seed: '-1'; expected a whole number" "$program" kernels --seed -1 --out none
check "no state to go on from" complains 2 'checkpoint' "$program" kernels --resume --out none
check "no place for the result" complains 2 'out' "$program" kernels
finish
