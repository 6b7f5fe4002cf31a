#!/usr/bin/env python3
"""measurements.py ROOT: bench/measure.sh and docs/performance.md agree.

Every measurement stands on the page as `bash bench/measure.sh NAME...`, every such name is a measurement, and the
programs, scripts and tables of its command exist. Exit code 1 with a line per fault.
"""
import pathlib
import re
import subprocess
import sys


def measurements(root):
    """Commands by name."""
    text = subprocess.run(["bash", str(root / "bench/measure.sh"), "--list"], check=True, capture_output=True,
                          text=True).stdout
    return {line.split()[0]: line.split()[1:] for line in text.splitlines()}


def missing(root, words):
    """What a command names that the tree does not have."""
    for word in words:
        if word.startswith("build/release/bin/"):
            name = word.rsplit("/", 1)[1]
            source = f"bench/{name.removeprefix('bench_')}" if name.startswith("bench_") else f"examples/{name}"
            if not (root / f"{source}.cpp").is_file():
                return f"no source {source}.cpp of {word}"
        elif word.endswith((".py", ".sh")) and not (root / word).is_file():
            return f"no script {word}"
    # A table that a script does not have is an argument that its parser refuses.
    script = next((i for i, word in enumerate(words) if word.endswith("_tables.py")), None)
    if script is not None:
        told = subprocess.run([sys.executable, *words[script:], "--help"], cwd=root, capture_output=True, text=True)
        if told.returncode != 0:
            return told.stderr.strip().splitlines()[-1]
    return None


def main():
    root = pathlib.Path(sys.argv[1])
    known = measurements(root)
    page = (root / "docs/performance.md").read_text()
    commands = re.findall(r"^bash bench/measure\.sh ([^#\n]*)", page, re.M)
    named = {name for command in commands for name in command.split()}
    faults = [f"docs/performance.md: no measurement {name} in bench/measure.sh" for name in sorted(named - set(known))]
    faults += [f"bench/measure.sh: {name} is not on docs/performance.md" for name in known if name not in named]
    faults += [f"bench/measure.sh: {name}: {fault}" for name, words in known.items()
               if (fault := missing(root, words)) is not None]
    print("\n".join(faults) or f"{len(known)} measurements")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
