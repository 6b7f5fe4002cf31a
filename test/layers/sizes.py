#!/usr/bin/env python3
"""Headers are short: the median has 200 lines at most, and one of more than 500 says at its top why ("Over 500 lines ...").

usage: sizes.py INCLUDE_FOLDER"""
import pathlib
import statistics
import sys

MEDIAN, MOST = 200, 500


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: sizes.py INCLUDE_FOLDER")
    texts = {p: p.read_text().splitlines() for p in sorted(pathlib.Path(sys.argv[1]).rglob("*.[hc][pu]*"))}
    if not texts:
        sys.exit(f"{sys.argv[1]}: no headers; expected some")
    long = [p for p, lines in texts.items() if len(lines) > MOST and "Over 500" not in " ".join(lines[:4]).replace("// ", "")]
    for p in long:
        print(f"{p}: {len(texts[p])} lines, and no reason; expected {MOST} at most, or 'Over 500 lines because ...' at its top", file=sys.stderr)
    median = statistics.median(len(lines) for lines in texts.values())
    print(f"{len(texts)} headers, the median of {median:g} lines, {len(long)} too long")
    if median > MEDIAN:
        sys.exit(f"a median of {median:g} lines; expected {MEDIAN} at most")
    sys.exit(len(long) > 0)


main()
