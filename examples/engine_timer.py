"""Runs models in an engine for a program that asks, such as `optimize --target`: lines of JSON.

    ENGINE_timer.py          questions on standard input, an answer to each on standard output

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
What fails is answered by {"error": one line}. Ends with its input.

An engine has `name` and `version`, and open(path, threads) gives what runs the model, as onnxruntime's sessions do:
get_inputs() and get_outputs() with `name`, `type` and `shape`, and run(None, inputs by name).
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
    def __init__(self, engine):
        import numpy
        self.numpy, self.engine = numpy, engine
        self.models = []
        self.inputs = None

    def hello(self):
        return {"engine": self.engine.name, "version": self.engine.version, "machine": processor()}

    def inputs_of(self, session, path, dimensions, seed):
        dynamic = engines.dynamic_dimensions(session)  # a model for these sizes may have none
        how = argparse.Namespace(model=path, seed=seed, below={},
                                 dim={name: size for name, size in dimensions.items() if name in dynamic})
        return engines.make_inputs(self.numpy, how, session)

    def load(self, question):
        path = question["load"]
        session = self.engine.open(path, question["threads"])
        if self.inputs is None:
            self.inputs = self.inputs_of(session, path, question["dimensions"], question["seed"])
        self.models.append(engines.Model(session, path, self.inputs, self.engine.name))
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
        session = self.engine.open(path, question["threads"])
        model = engines.Model(session, path, self.inputs_of(session, path, {}, 0), self.engine.name)
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


def serve(make_engine):
    """make_engine: gives the engine, or raises engines.Problem where it is not there."""
    # Libraries that write to standard output would spoil the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(answer):
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    try:
        timer = Timer(make_engine())
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
