#!/usr/bin/env python3
"""Runs models in onnxruntime for a program that asks, such as `optimize --target onnxruntime`: lines of JSON.

    onnxruntime_timer.py          questions on standard input, an answer to each on standard output

It first says {"engine", "version", "machine"}. Questions, and what it answers:
    {"load": FILE, "threads": N, "dimensions": {NAME: SIZE}, "seed": S}     {"model": its number, from 0}
        The first model is given inputs from the seed, the others get the same.
    {"compare": [MODEL, MODEL]}                                             {"max_rel_error": of all outputs}
        Relative to the outputs of the first; null: infinite.
    {"time": [MODEL, ...], "rounds": N, "seconds": S}                       {"seconds": [[of a run, ...], ...]}
        In turns, N rounds at most and about S seconds, 5 rounds at least; the model that begins changes.
    {"unload": MODEL}                                                       {}
    {"measure": FILE, "threads": N, "seconds": S}                           {"seconds": [of a run, ...]}
        A model alone, on inputs of its own, 5 to 1000 runs.
What fails is answered by {"error": one line}. Ends with its input. Needs Python 3.9 and
`pip install onnxruntime numpy`.
"""

import argparse
import json
import math
import os
import platform
import sys
import time

import compare_engines as engines


def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


class Timer:
    def __init__(self):
        self.numpy, self.engine = engines.import_engine()
        self.models = []
        self.inputs = None

    def hello(self):
        return {"engine": "onnxruntime", "version": self.engine.__version__, "machine": processor()}

    def load(self, question):
        path = question["load"]
        how = argparse.Namespace(model=path, threads=question["threads"], level="all", seed=question["seed"], below={})
        session = engines.open_model(self.engine, how, path)
        dynamic = engines.dynamic_dimensions(session)  # a model for these sizes may have none
        how.dim = {name: size for name, size in question["dimensions"].items() if name in dynamic}
        if self.inputs is None:
            self.inputs = engines.make_inputs(self.numpy, how, session)
        self.models.append(engines.Model(session, path, self.inputs))
        return {"model": len(self.models) - 1}

    def compare(self, question):
        first, second = (self.models[number] for number in question["compare"])
        if second.outputs != first.outputs:
            raise engines.Problem(f"{second.path}: outputs {', '.join(second.outputs)}; "
                                  f"expected {', '.join(first.outputs)}")
        error = max((engines.relative_error(self.numpy, found, expected)
                     for found, expected in zip(second.run()[1], first.run()[1])), default=0.0)
        return {"max_rel_error": error if math.isfinite(error) else None}

    def time(self, question):
        models = [self.models[number] for number in question["time"]]
        for model in models:  # the first runs allocate
            model.run()
            model.run()
        times = [[] for _ in models]
        start = time.perf_counter()
        least = min(5, question["rounds"])
        for turn in range(question["rounds"]):
            if turn >= least and time.perf_counter() - start > question["seconds"]:
                break
            for place in range(len(models)):
                at = (place + turn) % len(models)
                times[at].append(models[at].run()[0])
        return {"seconds": times}

    def unload(self, question):
        self.models[question["unload"]] = None
        return {}

    def measure(self, question):
        path = question["measure"]
        how = argparse.Namespace(model=path, threads=question["threads"], level="all", seed=0, dim={}, below={})
        session = engines.open_model(self.engine, how, path)
        model = engines.Model(session, path, engines.make_inputs(self.numpy, how, session))
        start = time.perf_counter()
        for _ in range(3):
            model.run()
        times = []
        while len(times) < 5 or (len(times) < 1000 and time.perf_counter() - start < question["seconds"]):
            times.append(model.run()[0])
        return {"seconds": times}

    def answer(self, question):
        for name in ("load", "compare", "time", "unload", "measure"):
            if name in question:
                return getattr(self, name)(question)
        raise engines.Problem(f"no such question: {', '.join(question)}")


def main():
    # Libraries that write to standard output would spoil the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(answer):
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    try:
        timer = Timer()
    except engines.Problem as e:
        say({"error": str(e)})
        return 1
    say(timer.hello())
    for line in sys.stdin:
        try:
            say(timer.answer(json.loads(line)))
        except engines.Problem as e:
            say({"error": engines.one_line(e)})
        except Exception as e:  # of any kind: engines fail in many ways
            say({"error": f"{type(e).__name__}: {engines.one_line(e)}"})
    return 0


if __name__ == "__main__":
    sys.exit(main())
