#!/usr/bin/env python3
"""reduce.py [--least N] [--programs DIR] [--new DIR] TARGET...: keeps of test/fuzz/corpus/TARGET what has a use.

libFuzzer's merge says which branches each input takes, of the corpus and, if said, of the folder --new (as
build/fuzz/corpus, where test/fuzz.sh leaves what it found). Inputs with a name of their own stay: each is there for a
reason. Of the others, the one that takes the most branches that none of those kept does is kept next, as long as there
are N (10). The last line counts.
"""
import argparse
import pathlib
import re
import subprocess
import tempfile

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"


def branches(program, folders):
    """The branches of each input, by its path."""
    with tempfile.TemporaryDirectory() as scratch:
        control = pathlib.Path(scratch) / "control"
        (pathlib.Path(scratch) / "none").mkdir()
        subprocess.run([program, "-merge=1", "-use_counters=0", "-timeout=20", f"-merge_control_file={control}",
                        f"{scratch}/none", *folders], check=True, capture_output=True, stdin=subprocess.DEVNULL)
        lines = control.read_text().splitlines()
    count = int(lines[0])
    paths, found = [pathlib.Path(p) for p in lines[2:2 + count]], {}
    for words in (line.split() for line in lines[2 + count:]):
        if words[0] == "FT":
            found[paths[int(words[1])]] = set(words[2:])
    for path in pathlib.Path(folders[0]).iterdir():
        found.setdefault(path, set())  # an empty one is not run
    return found


def reduced(found, least):
    kept = {p for p in found if not re.fullmatch("[0-9a-f]{40}", p.name)}
    taken = set().union(*(found[p] for p in kept))
    left = {p: b - taken for p, b in found.items() if p not in kept}
    while left:
        best = max(left, key=lambda p: (len(left[p]), -p.stat().st_size, p.name))
        more = left.pop(best)
        if len(more) < least:
            break
        kept.add(best)
        taken |= more
        left = {p: b - more for p, b in left.items() if not b <= more}
    return kept, len(taken), len(set().union(*found.values()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--least", type=int, default=10)
    parser.add_argument("--programs", type=pathlib.Path, default=CORPUS.parents[2] / "build/fuzz/fuzz")
    parser.add_argument("--new", type=pathlib.Path)
    parser.add_argument("targets", nargs="+")
    a = parser.parse_args()
    inputs = branches_kept = branches_all = 0
    for target in a.targets:
        folders = [CORPUS / target] + ([a.new / target] if a.new else [])
        kept, some, every = reduced(branches(a.programs / f"fuzz_{target}", folders), a.least)
        contents = [(p.name, p.read_bytes()) for p in kept]
        for p in (CORPUS / target).iterdir():
            p.unlink()
        for name, content in contents:
            (CORPUS / target / name).write_bytes(content)
        print(f"{target}: {len(kept)} inputs, {some} of {every} branches")
        inputs, branches_kept, branches_all = inputs + len(kept), branches_kept + some, branches_all + every
    print(f"{inputs} inputs, {branches_kept} of {branches_all} branches")


if __name__ == "__main__":
    main()
