#!/usr/bin/env python3
"""An engine that `optimize --target onnxruntime --timer` takes for one, for tests: the protocol of
onnxruntime_timer.py, with times that depend on the environment alone; operators take as long as their files.

ENGINE_FASTER: how many times as fast candidates run, one number each in the order in which they were found (their
files' numbers), the last for all further ones; default 1. ENGINE_FAULT: what goes wrong with a candidate, of which
ENGINE_FAULT_AT is the number from 1 on (0: the original; default: all candidates): refuse, differ, nan, die, hang,
garbage, form. Or at the start: silent_start, dead_start, garbage_start, other_start, missing.
"""

import json
import os
import re
import sys
import time

faster = [float(text) for text in os.environ.get("ENGINE_FASTER", "1").split()]
fault = os.environ.get("ENGINE_FAULT", "")
fault_at = os.environ.get("ENGINE_FAULT_AT")


def say(answer):
    print(json.dumps(answer), flush=True)


def fails(number):
    return number > 0 if fault_at is None else number == int(fault_at)


def number_of(path):
    found = re.fullmatch(r"candidate_(\d+)\.onnx", os.path.basename(path))
    return int(found[1]) + 1 if found else 0


def main():
    if fault == "dead_start":
        sys.exit("no such engine here")
    if fault == "silent_start":
        time.sleep(60)
    if fault == "garbage_start":
        print("Welcome!", flush=True)
    if fault == "other_start":
        say({"hello": 1})
    if fault == "missing":
        say({"error": "onnxruntime: cannot be imported; expected what `pip install onnxruntime numpy` installs"})
        return
    say({"engine": "fake", "version": "1.0"})
    numbers = []  # by model: that of the candidate; 0: the original
    for line in sys.stdin:
        question = json.loads(line)
        if "load" in question:
            with open(question["load"], "rb") as file:
                file.read(1)
            number = number_of(question["load"])
            if fails(number):
                if fault == "refuse":
                    say({"error": f"{question['load']}: no kernel"})
                    continue
                if fault == "die":
                    print("a crash", file=sys.stderr)
                    os.abort()
                if fault == "hang":
                    time.sleep(60)
                if fault == "garbage":
                    print("3.14, {", flush=True)
                    continue
                if fault == "form":
                    say({"model": "first"})
                    continue
            numbers.append(number)
            say({"model": len(numbers) - 1})
        elif "compare" in question:
            number = max(numbers[model] for model in question["compare"])
            wrong = fails(number) and fault in ("differ", "nan")
            say({"max_rel_error": (None if fault == "nan" else 0.5) if wrong else 0.0})
        elif "time" in question:
            runs = []
            for model in question["time"]:
                number = numbers[model]
                factor = 1.0 if number == 0 else faster[min(number, len(faster)) - 1]
                runs.append([1e-3 * (1 + 0.001 * (turn % 3)) / factor for turn in range(question["rounds"])])
            say({"seconds": runs})
        elif "measure" in question:
            say({"seconds": [1e-9 * os.path.getsize(question["measure"])] * 5})
        elif "unload" in question:
            say({})
        else:
            say({"error": "what?"})


if __name__ == "__main__":
    main()
