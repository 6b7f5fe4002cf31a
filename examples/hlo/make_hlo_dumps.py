#!/usr/bin/env python3
"""Makes HLO text of JAX programs (hlo_programs.py), and asks XLA whether what we write of such text is the same.

usage: make_hlo_dumps.py dump FOLDER [PROGRAM...]        NAME.before.hlo, NAME.after.hlo, NAME.unfused.hlo of each
       make_hlo_dumps.py compare FOLDER --tool "COMMAND" each .hlo of FOLDER: COMMAND IN --out OUT; is OUT equal?
       make_hlo_dumps.py run --tool "COMMAND" [PROGRAM...] [--seeds N]
                                                         COMMAND within XLA's compiler: are the results the same?

before: as JAX lowers the program; after: as XLA compiles it for the CPU; unfused: what XLA would compile if it fused
nothing. What communicates does so among 4 devices of the host. `compare` parses both texts with XLA and compares what
it prints of them. `run` has COMMAND rewrite the unfused module, IN --out OUT --seed 1 to N, without --seed where N is
0, and runs both on equal inputs.
Where this Python has no jax of the version below, a virtual environment with it is made first (--venv, default: venv
beside the dumps, in the temporary folder for `run`), by pip as it is configured; that takes a minute.
"""
import argparse
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import venv

VERSION = "0.10.2"  # of jax and jaxlib: the calls below are not part of what JAX promises to keep
OWN_FUSIONS = "fusion,dot-library-rewriter,cpu-all-reduce-combiner"  # a lone scatter runs in a fusion alone


def module_of(text):
    from jaxlib import _hlo
    return _hlo.hlo_module_from_text(text)


def text_of(module, metadata=True):
    from jaxlib import _hlo
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    options.print_metadata = metadata
    return module.to_string(options)


class transformed:
    """While it is entered, XLA compiles change(text) instead of text, just before it orders instructions."""

    def __init__(self, change):
        self.change, self.error = change, None

    def call(self, module):
        from jaxlib import _hlo
        try:
            text = text_of(_hlo.HloModule.from_serialized_hlo_module_proto(module))
            changed = self.change(text)
            return None if changed is None else module_of(changed).as_serialized_hlo_module_proto()
        except Exception as e:  # which must not cross the compiler
            self.error = e
            return None

    def __enter__(self):
        from jax.extend import xla
        xla.register_hlo_module_transformation(self.call, name="unity", platforms="cpu")
        return self

    def __exit__(self, *_):
        from jax.extend import xla
        xla.clear_hlo_module_transformation("unity", platforms="cpu")
        if self.error:
            raise self.error


def compiled_unfused(function, arguments, change):
    with transformed(change):
        return function.lower(*arguments).compile(compiler_options={"xla_disable_hlo_passes": OWN_FUSIONS})


def dump(a):
    from hlo_programs import PROGRAMS
    for name in a.programs or PROGRAMS:
        function, arguments = PROGRAMS[name]()
        lowered = function.lower(*arguments)
        compiled = lowered.compile()
        texts = {"before": lowered.as_text(dialect="hlo"), "after": compiled.as_text()}
        compiled_unfused(function, arguments, lambda text: texts.update(unfused=text))
        if name != "mlp":  # of the others without metadata, which are most of the text
            texts["after"] = text_of(compiled.runtime_executable().hlo_modules()[0], metadata=False)
            texts["unfused"] = text_of(module_of(texts["unfused"]), metadata=False)
        for kind, text in texts.items():
            (a.folder / f"{name}.{kind}.hlo").write_text(text.rstrip("\n") + "\n")


def rewritten(a, source, *flags):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.hlo"
        subprocess.run([*shlex.split(a.tool), source, "--out", out, *flags], check=True)
        return out.read_text()


def compare(a):
    files = sorted(a.folder.glob("*.hlo"))
    differ = [f.name for f in files if text_of(module_of(f.read_text())) != text_of(module_of(rewritten(a, f)))]
    print(f"{len(files) - len(differ)} of {len(files)} modules are the same to XLA", *differ)
    return 1 if differ or not files else 0


def run(a):
    import jax
    import numpy as np
    from hlo_programs import PROGRAMS
    failed = 0
    seeds = range(1, a.seeds + 1) if a.seeds else [None]

    def change(text, seed):
        with tempfile.NamedTemporaryFile("w", suffix=".hlo") as f:
            f.write(text)
            f.flush()
            return rewritten(a, f.name, *(["--seed", str(seed)] if seed else []))

    for name in a.programs or PROGRAMS:
        function, arguments = PROGRAMS[name]()
        expected = jax.tree.map(np.asarray, compiled_unfused(function, arguments, lambda _: None)(*arguments))
        for seed in seeds:
            function, arguments = PROGRAMS[name]()
            try:
                ours = compiled_unfused(function, arguments, lambda text: change(text, seed))(*arguments)
                jax.tree.map(lambda x, y: np.testing.assert_allclose(
                    np.asarray(x, np.result_type(x, np.float32)), np.asarray(y, np.result_type(y, np.float32)),
                    rtol=a.tolerance, atol=a.tolerance), expected, jax.tree.map(np.asarray, ours))
            except Exception as e:
                failed += 1
                print(f"{name}, seed {seed}: {str(e)[:2000]}")
    print(f"{failed} of {len(a.programs or PROGRAMS) * len(seeds)} rewritten programs fail or differ")
    return 1 if failed else 0


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = p.add_subparsers(dest="mode", required=True)
    for mode in (dump, compare, run):
        m = modes.add_parser(mode.__name__)
        m.set_defaults(mode=mode)
        m.add_argument("--venv")
        if mode is not run:
            m.add_argument("folder", type=pathlib.Path)
        if mode is not dump:
            m.add_argument("--tool", required=True)
        if mode is not compare:
            m.add_argument("programs", nargs="*", metavar="PROGRAM")
        if mode is run:
            m.add_argument("--seeds", type=int, default=3)
            m.add_argument("--tolerance", type=float, default=1e-4)
    return p.parse_args()


def main():
    a = arguments()
    folder = getattr(a, "folder", pathlib.Path(tempfile.gettempdir()))
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4 --xla_cpu_enable_fast_math=false"
    os.environ["JAX_PLATFORMS"] = "cpu"
    try:
        import jax
        if jax.__version__ != VERSION:
            raise ImportError
    except ImportError:
        python = pathlib.Path(a.venv or folder / "venv") / "bin/python"
        if not python.exists():
            venv.create(python.parent.parent, with_pip=True)
            packages = [f"jax=={VERSION}", f"jaxlib=={VERSION}"]
            subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        sys.exit(subprocess.run([python, *sys.argv]).returncode)
    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
    jax.config.update("jax_traceback_in_locations_limit", 1)
    sys.exit(a.mode(a))


if __name__ == "__main__":
    main()
