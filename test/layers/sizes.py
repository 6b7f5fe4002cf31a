#!/usr/bin/env python3
"""What a reader has before the eyes is small: headers have 200 lines in the median, and one of more than 500 says at its
top why ("Over 500 lines ..."); lines have 120 columns.

usage: sizes.py ROOT"""
import pathlib
import re
import statistics
import sys

MEDIAN, MOST, COLUMNS = 200, 500, 120
FOLDERS = ("include", "examples", "bench", "test")
SOURCES = {".hpp", ".cpp", ".cu", ".cuh"}
# Lines that end where they do: rules and patterns as text, and the arguments with which the suite runs an example.
TEXT = re.compile(r'R"(\w*)\(.*?\)\1"', re.DOTALL)
ARGUMENTS = "// run: "


def wide_lines(text):
    is_text = set()
    for literal in TEXT.finditer(text):
        first = text.count("\n", 0, literal.start())
        is_text.update(range(first, first + literal.group().count("\n") + 1))
    for number, line in enumerate(text.splitlines()):
        if len(line) > COLUMNS and number not in is_text and not line.startswith(ARGUMENTS):
            yield number + 1


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: sizes.py ROOT")
    root = pathlib.Path(sys.argv[1])
    sources = [p for f in FOLDERS for p in sorted((root / f).rglob("*")) if p.suffix in SOURCES]
    headers = [p for p in sources if p.is_relative_to(root / "include")]
    if not headers:
        sys.exit(f"{root}/include: no headers; expected some")
    found = 0
    lengths = []
    for path in sources:
        text = path.read_text()
        lines = text.splitlines()
        for number in wide_lines(text):
            print(f"{path}:{number}: more than {COLUMNS} columns", file=sys.stderr)
            found += 1
        if path in headers:
            lengths.append(len(lines))
            if len(lines) > MOST and "Over 500" not in " ".join(lines[:4]).replace("// ", ""):
                print(f"{path}: {len(lines)} lines and no reason; expected {MOST} at most, or 'Over 500 lines because ...'",
                      file=sys.stderr)
                found += 1
    median = statistics.median(lengths)
    print(f"{len(headers)} headers, the median of {median:g} lines; {len(sources)} files with {found} breaches")
    if median > MEDIAN:
        sys.exit(f"a median of {median:g} lines; expected {MEDIAN} at most")
    sys.exit(found > 0)


main()
