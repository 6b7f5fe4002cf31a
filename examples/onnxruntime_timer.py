#!/usr/bin/env python3
"""Runs models in onnxruntime for `optimize --target onnxruntime`: see engine_timer.py.

Needs Python 3.9 and `pip install onnxruntime numpy`.
"""

import argparse
import sys

import compare_engines as engines
import engine_timer


class OnnxRuntime:
    name = "onnxruntime"

    def __init__(self):
        _, self.engine = engines.import_engine()
        self.version = self.engine.__version__

    def open(self, path, threads):
        return engines.open_model(self.engine, argparse.Namespace(threads=threads, level="all"), path)


if __name__ == "__main__":
    sys.exit(engine_timer.serve(OnnxRuntime))
