#!/usr/bin/env python3
"""Makes a large trace of PyTorch's profiler from a small one by repeating its steps at later times.

usage: large_trace.py TRACE[.gz] OUT.json MEGABYTES
"""
import gzip
import json
import sys

IDS = ("correlation", "External id", "Ev Idx", "Sequence number")


def copy_of(event, number, span, steps, ids):
    """The event in copy `number`: later, in another step, with other ids."""
    e = dict(event)
    if "ts" in e:
        e["ts"] += number * span
    if isinstance(e.get("id"), int):
        e["id"] += number * ids
    name = e.get("name")
    if isinstance(name, str) and name.startswith("ProfilerStep#"):
        e["name"] = f"ProfilerStep#{int(name.split('#')[1]) + number * steps}"
    if isinstance(e.get("args"), dict):
        e["args"] = {k: v + number * ids if k in IDS and isinstance(v, int) and v > 0 else v
                     for k, v in e["args"].items()}
    return e


def main():
    source, out, size = sys.argv[1], sys.argv[2], float(sys.argv[3]) * 1e6
    with (gzip.open if source.endswith(".gz") else open)(source, "rt") as f:
        trace = json.load(f)
    events = trace.pop("traceEvents")
    once = [e for e in events if e.get("ph") == "M" or "ts" not in e]
    again = [e for e in events if e.get("ph") != "M" and "ts" in e]
    complete = [e for e in again if e["ph"] == "X"]
    span = max(e["ts"] + e["dur"] for e in complete) - min(e["ts"] for e in complete) + 1000
    steps = len({e["name"] for e in complete if str(e["name"]).startswith("ProfilerStep#")})
    ids = 1 + max([e["id"] for e in again if isinstance(e.get("id"), int)] +
                  [v for e in again for k, v in e.get("args", {}).items() if k in IDS and isinstance(v, int)])
    written = 0
    with open(out, "w") as f:
        f.write(json.dumps(trace)[:-1] + ', "traceEvents": [')
        f.write(",\n".join(json.dumps(e) for e in once))
        number = 0
        while written < size:
            text = "".join(",\n" + json.dumps(copy_of(e, number, span, steps, ids)) for e in again)
            written += len(text)
            f.write(text)
            number += 1
        f.write("]}\n")
    print(f"{out}: {written / 1e6:.0f} MB, {number} times {len(again)} events, {number * steps} steps")


if __name__ == "__main__":
    main()
