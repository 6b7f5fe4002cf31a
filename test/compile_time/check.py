#!/usr/bin/env python3
"""check.py --key COMPILER --compiler PROGRAM [--flag FLAG]... [--record] [--baselines FILE] HEADER...: how much memory
g++ allocates to read each header, compared with what is recorded.

That is what declarations, templates and their instantiations cost, in the same number on every run and on every
machine (what -fmem-report counts at the end, where no memory was collected), and time grows with it. So 5% is a change
of the code. A header that got cheaper fails as well: what is gained is recorded (--record), or it could be lost again
unseen. -ftime-report also counts what was given back at once, but asks for the time so often that it takes three times
as long.
"""

import argparse
import json
import pathlib
import re
import resource
import subprocess
import sys

TOLERANCE = 0.05
SKIPPED = 77  # to ctest
NEVER = 64 << 20  # KiB: no memory is collected below
UNITS = {"": 1e-6, "k": 1 / 1024, "M": 1, "G": 1024}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--key", required=True, help="compiler, version and processor: the key of the baselines")
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--flag", action="append", default=[])
    parser.add_argument("--baselines", type=pathlib.Path, default=pathlib.Path(__file__).with_name("baselines.json"))
    parser.add_argument("--record", action="store_true", help="what is measured is the baseline from now on")
    parser.add_argument("headers", nargs="+")
    return parser.parse_args()


def measure(a, header):
    """MiB that the compiler allocates, CPU seconds, and how many headers of unity it reads; or what it complains of."""
    command = [a.compiler, "-std=c++20", "-O0", "-fsyntax-only", "-H", "-fmem-report", "--param",
               f"ggc-min-heapsize={NEVER}", *a.flag, "-x", "c++", "-"]
    before = cpu_seconds()
    run = subprocess.run(command, input=f"#include <{header}>\n", capture_output=True, text=True)
    seconds = cpu_seconds() - before
    total = re.search(r"^Total +\d+[kMG]? +(\d+)([kMG]?) +\d+[kMG]? *$", run.stderr, re.M)
    if run.returncode != 0 or not total:
        return None, next((line for line in run.stderr.splitlines() if "error" in line), "no report of its memory")
    own = len(set(re.findall(r"^\.+ (.*/unity/.*)$", run.stderr, re.M)))
    return (int(total[1]) * UNITS[total[2]], seconds, own), ""


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fault(header, found, recorded):
    """What is wrong, in one line; nothing if all is well."""
    if recorded is None:
        return f"{header}: {found:.0f} MiB, nothing recorded; expected a baseline: --record"
    change = found / recorded - 1
    if abs(change) > TOLERANCE:
        return (f"{header}: {found:.0f} MiB, {change:+.1%}; expected {recorded} within {TOLERANCE:.0%}: "
                "mend it, or record it and say why (--record)")
    return ""


def main():
    a = arguments()
    baselines = json.loads(a.baselines.read_text()) if a.baselines.exists() else {}
    if a.key not in baselines and not a.record:
        print(f"compile_time: skipped: nothing recorded for {a.key}, only for {', '.join(baselines) or 'no other'}")
        return SKIPPED
    recorded = baselines.setdefault(a.key, {})
    faults = []
    for header in a.headers:
        found, problem = measure(a, header)
        if found is None:
            faults.append(f"{header}: {problem}; expected that it compiles")
            continue
        allocated, seconds, own = found
        before = recorded.get(header)
        change = f"{allocated / before - 1:+8.2%}" if before else " " * 8
        print(f"{header:28} {allocated:6.0f} MiB {change} {own:5} headers of unity "
              f"{seconds:6.1f} CPU s", flush=True)
        if a.record:
            recorded[header] = round(allocated)
        elif problem := fault(header, allocated, before):
            faults.append(problem)
    if a.record:
        a.baselines.write_text(json.dumps(baselines, indent=2) + "\n")
    for f in faults:
        print(f"compile_time: {f}")
    print(f"compile_time: {len(a.headers)} headers {'recorded' if a.record else 'measured'}, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
