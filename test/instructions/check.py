#!/usr/bin/env python3
"""check.py --program PATHS --compiler NAME [--record] [--baselines FILE] [PATH...]: counts the instructions of the
program's paths under callgrind, all or those named, and compares them with what is recorded for the compiler.

Counts do not depend on how busy a machine is, and hardly on anything else: the same program's differ by less than
0.01% from run to run, by what addresses decide inside copies of memory. So 5% is a change of the code. A path that got
cheaper fails as well: what is gained is recorded (--record), or it could be lost again unseen.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys

TOLERANCE = 0.05
SKIPPED = 77  # to ctest


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--compiler", required=True,
                        help="what made it, and for which processor: the key of the baselines")
    parser.add_argument("--baselines", type=pathlib.Path, default=pathlib.Path(__file__).with_name("baselines.json"))
    parser.add_argument("--record", action="store_true", help="what is counted is the baseline from now on")
    parser.add_argument("paths", nargs="*")
    return parser.parse_args()


def count(program, path):
    """Instructions of the path, its preparation left out."""
    run = subprocess.run(["valgrind", "--tool=callgrind", "--toggle-collect=unity_counted",
                          "--callgrind-out-file=/dev/null", program, path], capture_output=True, text=True)
    collected = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode != 0 or not collected:
        return None, (run.stderr.strip().splitlines() or ["no output"])[-1]
    return int(collected[1]), ""


def fault(path, counted, recorded):
    """What is wrong, in one line; nothing if all is well."""
    if recorded is None:
        return f"{path}: {counted} instructions, nothing recorded; expected a baseline: --record"
    change = counted / recorded - 1
    if abs(change) > TOLERANCE:
        return (f"{path}: {counted} instructions, {change:+.1%}; expected {recorded} within {TOLERANCE:.0%}: "
                "mend it, or record it and say why (--record)")
    return ""


def main():
    a = arguments()
    baselines = json.loads(a.baselines.read_text()) if a.baselines.exists() else {}
    if not shutil.which("valgrind"):
        print("instructions: skipped: no valgrind (apt-get install valgrind)")
        return SKIPPED
    if a.compiler not in baselines and not a.record:
        print(f"instructions: skipped: nothing recorded for {a.compiler}, "
              f"only for {', '.join(baselines) or 'no other'}")
        return SKIPPED

    recorded = baselines.get(a.compiler, {})
    known = subprocess.run([a.program], check=True, capture_output=True, text=True).stdout.split()
    counts, faults = {}, []
    for path in a.paths or known:
        counted, problem = count(a.program, path)
        if counted is None:
            faults.append(f"{path}: cannot be counted: {problem}")
            continue
        counts[path] = counted
        before = recorded.get(path)
        print(f"{path:24} {counted:12}" + (f"  {counted / before - 1:+.2%}" if before else ""))
        if not a.record:
            faults.append(fault(path, counted, before))
    faults += [f"{path}: recorded, but the program has no such path: --record" for path in recorded
               if path not in known and not a.record]
    if a.record:
        merged = recorded | counts
        baselines[a.compiler] = {path: merged[path] for path in known if path in merged}
        a.baselines.write_text(json.dumps(baselines, indent=2) + "\n")

    faults = [f for f in faults if f]
    for f in faults:
        print(f"instructions: {f}")
    print(f"instructions: {len(counts)} paths {'recorded' if a.record else 'counted'}, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
