#!/usr/bin/env python3
"""commands.py ROOT BIN SCRATCH [FILE...]: what the documentation says to type works, and prints what it says.

In README.md and docs/**/*.md under ROOT, or in each FILE, blocks of code that begin with
  ```sh            are run, one after the other for each file, in a folder of its own with ROOT's examples/ in it and
                   BIN in PATH; all must succeed
  ```sh by hand    take too long, or need what is not everywhere: their programs, files, presets and flags must exist
  ```text printed  are lines that the block of commands before it prints, if that was run; spaces, seconds and what
                   `...` stands for may differ
  ```text printed, other numbers   the same, but numbers depend on the machine
No command stands outside of them. Exit code 77: python3-onnx, of which the models are made, or a program is missing.
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

ROOT, BIN, SCRATCH = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
PRESETS = re.findall(r'"name": "(\w+)"', (ROOT / "CMakePresets.json").read_text())
PYTHON = "/usr/bin/python3"  # the one that Debian's python3-onnx belongs to
RUNNERS = {"bash", "python3", PYTHON, "time", "mpirun", "$"}
SYSTEM = {"cmake", "ctest", "pip", "export", "g++", "vcpkg", "conan", "doxygen"}
PROGRAMS = {path.stem for path in (ROOT / "examples").glob("*.cpp")} | SYSTEM | RUNNERS
ENVIRONMENT = dict(os.environ, PATH=f"{BIN}:{os.environ['PATH']}", OMPI_ALLOW_RUN_AS_ROOT="1",
                   OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", XDG_CACHE_HOME=str(SCRATCH / "cache"))


def blocks(text):
    """(line, info, content) of each block between fences, and of each command elsewhere, of which info is None."""
    info = None
    for number, line in enumerate(text.splitlines(), 1):
        fence = re.match(r"```(.*)$", line)
        if fence and info is None:
            info, start, content = fence.group(1).strip(), number, []
        elif fence:
            yield start, info, "\n".join(content)
            info = None
        elif info is not None:
            content.append(line)
        elif command := re.match(r"    (?:\$ )?(\S+)(?: \S|$)", line):
            name = command.group(1)
            if name.isascii() and (name in PROGRAMS or (ROOT / name).is_file() or "/bin/" in name):
                yield number, None, line.strip()


def simple_commands(block):
    """The words of each command of a block: without comments, and apart at && and ends of lines."""
    for line in block.replace("\\\n", " ").splitlines():
        words = []
        for word in shlex.split(line, comments=True) + ["&&"]:
            if word != "&&":
                words.append(word)
            elif words:
                yield words
                words = []


def known(path):
    """What tells a command's flags: the text of a script and of those that it names beside it, or a program's help."""
    if (ROOT / path).suffix in (".sh", ".py") and (ROOT / path).is_file():
        text = (ROOT / path).read_text()
        beside = ((ROOT / path).parent / name for name in set(re.findall(r"\w+\.py", text)))
        return text + "".join(p.read_text() for p in beside if p.is_file())
    program = BIN / pathlib.Path(path).name
    if not program.is_file():
        return "" if (BIN.parent / "test" / program.name).is_file() else None
    return subprocess.run([program, "--help"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          stdin=subprocess.DEVNULL, check=False, timeout=60).stdout if "bench_" not in path else ""


def problems_by_hand(block):
    for words in simple_commands(block):
        while words and (re.fullmatch(r"\w+=.*", words[0]) or words[0] in RUNNERS or words[0].startswith("-")
                         or words[0].isdigit()):
            words = words[1:]
        if not words:
            continue
        if words[0] in SYSTEM:
            preset = words[words.index("--preset") + 1] if "--preset" in words else None
            if preset and preset not in PRESETS:
                yield f"no preset '{preset}'"
            continue
        texts = [known(w) for w in words if w == words[0] or w.startswith("build/")]  # a script may run a program
        if texts[0] is None:
            yield f"no program or script '{words[0]}'"
            continue
        text = "".join(t or "" for t in texts)
        own = words[:words.index("--")] if "--" in words else words
        for flag in own[1:]:
            if flag.startswith("--") and flag.split("=")[0] not in text and text:
                yield f"{words[0]} has no {flag}"


def pattern(line, numbers):
    """Matches a printed line as the documentation shows it."""
    text = r"\s+".join(".*" if w == "..." else re.escape(w) for w in line.split())
    if numbers:
        text = re.sub(r"\d+(\\\.\d+)?(e-?\d+)?", r"[-+.e\\d]+", text)
    text = re.sub(r"\d+\\\.\d+(?=\\s\+s,)", r"[.\\d]+", text)
    return re.compile(r"\s*" + text + r"\s*$", re.MULTILINE)


def check(path, folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in ("examples", "include", "cmake"):
        (folder / name).symlink_to(ROOT / name)
    printed = None
    for number, info, block in blocks(path.read_text()):
        if info is None:
            yield number, f"a command outside of a block of commands: {block}"
        elif info == "sh by hand":
            printed = None
            for problem in problems_by_hand(block):
                yield number, problem
        elif info == "sh":
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=folder, env=ENVIRONMENT, text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  check=False)
            printed = done.stdout
            if done.returncode != 0:
                yield number, f"exit code {done.returncode}: {printed[-500:]}"
        elif info.startswith("text printed") and printed is not None:
            for line in block.splitlines():
                if line.strip() and not pattern(line, info.endswith("other numbers")).search(printed):
                    yield number, f"'{line.strip()}' is not printed"


def main():
    if subprocess.run([PYTHON, "-c", "import numpy, onnx"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        print("commands: skipped: no onnx for /usr/bin/python3 (apt-get install python3-onnx)")
        sys.exit(77)
    files = [pathlib.Path(f).resolve() for f in sys.argv[4:]]
    files = files or [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
    faults = 0
    for path in files:
        for number, problem in check(path, SCRATCH / path.stem):
            print(f"{path.name}:{number}: {problem}")
            faults += 1
    print(f"commands: {len(files)} files; {faults} faults")
    sys.exit(1 if faults else 0)


main()
