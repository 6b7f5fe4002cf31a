#!/usr/bin/env python3
"""reached.py ROOT: an example or a benchmark uses each header of include/.

A header is reached if a file of examples/ or bench/ includes it, directly or indirectly. Each other header must be
listed in test/layers/unreached.txt, in a line `HEADER: why it stays`, unless a listed header includes it. A header that
a .cu or .cuh file reaches must not include range-v3, which nvcc cannot parse. Prints each breach, including lines of
the list that are not needed, and exits with 1 if there are any.
"""
import pathlib
import re
import sys

RANGES = re.compile(r'^[ \t]*#[ \t]*include[ \t]*<range/v3/', re.MULTILINE)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)
SOURCES = {".cpp", ".hpp", ".cu", ".cuh"}


class includes:
    def __init__(self, root):
        self.include, self.known = root / "include", {}

    def of(self, path):
        if path not in self.known:
            found = set()
            for name in INCLUDE.findall(path.read_text(encoding="utf-8")):
                for candidate in (self.include / name, path.parent / name):
                    if candidate.is_file():
                        found.add(candidate.resolve())
            self.known[path] = found
        return self.known[path]

    def reached_from(self, paths):
        reached, left = set(paths), list(paths)
        while left:
            for other in self.of(left.pop()) - reached:
                reached.add(other)
                left.append(other)
        return reached


def listed(path):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path.is_file() else [], 1):
        if line.strip() and not line.startswith("#"):
            header, _, why = line.partition(": ")
            yield number, header, why.strip()


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    tree, table = includes(root), root / "test/layers/unreached.txt"
    name = lambda path: str(path.relative_to(tree.include))  # noqa: E731
    headers = {p.resolve() for p in tree.include.rglob("*") if p.suffix in {".hpp", ".cuh"}}
    sources = {p.resolve() for folder in ("examples", "bench") for p in (root / folder).rglob("*")
               if p.suffix in SOURCES}
    reached = tree.reached_from(sources)
    breaches, stay = [], set()
    for number, header, why in listed(table):
        path = (tree.include / header).resolve()
        if path not in headers:
            breaches.append(f"{table.name}:{number}: {header} does not exist")
        elif path in reached:
            breaches.append(f"{table.name}:{number}: {header} is reached: no need to list it")
        elif not why:
            breaches.append(f"{table.name}:{number}: {header} without a reason")
        stay.add(path)
    explained = tree.reached_from(stay & headers)
    for path in sorted(headers - reached - explained):
        by = sorted(name(p) for p in headers - reached if path in tree.of(p))
        breaches.append(f"{name(path)}: no example and no benchmark includes it"
                        + (f"; {', '.join(by)} do" if by else "; expected a use, or why it stays in " + table.name))
    folders = ("include", "examples", "bench", "test")
    kernels = {p.resolve() for folder in folders for p in (root / folder).rglob("*.cu*")}
    for path in sorted(tree.reached_from(kernels) & headers):
        if RANGES.search(path.read_text(encoding="utf-8")):
            breaches.append(f"{name(path)}: a .cu file reaches it; expected no range-v3")
    for line in breaches:
        print(line)
    print(f"{len(headers)} headers, {len(headers - reached)} not reached, {len(stay)} listed, {len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
