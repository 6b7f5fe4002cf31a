#!/usr/bin/env python3
"""Checks sizes. The median length of headers is at most 300 lines. A header of more than 500 lines says at its top why
("Over 500 lines ..."). Nine of ten C++ functions have at most 25 lines. Lines have at most 120 columns, in C++ and in
scripts (shell, Python, awk, CMake).

usage: sizes.py ROOT"""
import pathlib
import re
import statistics
import sys

MEDIAN, MOST, COLUMNS = 300, 500, 120
FUNCTION, OF_TEN = 25, 9
FOLDERS = ("include", "examples", "bench", "test")
SOURCES = {".hpp", ".cpp", ".cu", ".cuh"}
SCRIPT_FOLDERS = (".ci", "cmake", "docs", *FOLDERS)
SCRIPTS = {".sh", ".py", ".awk", ".cmake"}
SCRIPT_NAMES = {"CMakeLists.txt", "run"}
# Lines that may be wider: raw string literals with rules and patterns, the `// run:` lines of examples, and a single
# word on its own line, such as a URL in a comment.
TEXT = re.compile(r'R"(\w*)\(.*?\)\1"', re.DOTALL)
WHOLE = re.compile(r"// run: .*|\s*(//|#)?\s*\S+")

# Parts of a source file that are not code: string literals, character literals and comments.
LITERALS = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|'
                      r"(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)+'|//[^\n]*|/\*.*?\*/", re.DOTALL)
SCOPE = re.compile(r"\s*(template\s*<.*>\s*)?(\[\[\w+\]\]\s*)?(inline\s+)?"
                   r"(namespace|class|struct|union|enum|extern)\b", re.DOTALL)


def function_lengths(text):
    """Lines of each function, from its first line to its closing brace, including the functions inside it."""
    text = LITERALS.sub(lambda m: "\n" * m.group().count("\n") + ("" if m.group()[0] == "/" else "0"), text)
    text = re.sub(r"^[ \t]*#(?:.*\\\n)*.*", lambda m: "\n" * m.group().count("\n"), text, flags=re.MULTILINE)
    scopes, begun, function, round_brackets = [], 0, None, 0
    for at, c in enumerate(text):
        if c in "()":
            round_brackets += 1 if c == "(" else -1
        elif c == "{":
            before = text[begun:at]
            outside = function is None and round_brackets == 0
            is_function = outside and not SCOPE.match(before) and re.search(r"\)[^=]*$", before) and "(" in before
            if is_function:
                function = (len(scopes), begun + len(before) - len(before.lstrip()))
            scopes.append(outside and not is_function and not SCOPE.match(before))
            begun = begun if scopes[-1] else at + 1  # an initializer is part of its statement
        elif c == "}":
            initializer = scopes.pop()
            if function and len(scopes) == function[0]:
                yield text.count("\n", function[1], at) + 1
                function = None
            begun = begun if initializer else at + 1
        elif c == ";" and function is None and round_brackets == 0 and not (scopes and scopes[-1]):
            begun = at + 1


def wide_lines(path, text):
    is_text = set()
    for literal in TEXT.finditer(text) if path.suffix in SOURCES else ():
        first = text.count("\n", 0, literal.start())
        is_text.update(range(first, first + literal.group().count("\n") + 1))
    for number, line in enumerate(text.splitlines()):
        if len(line) > COLUMNS and number not in is_text and not WHOLE.fullmatch(line):
            yield number + 1


def scripts(root):
    paths = [*sorted(root.glob("*")), *(p for f in SCRIPT_FOLDERS for p in sorted((root / f).rglob("*")))]
    return [p for p in paths if p.is_file() and (p.suffix in SCRIPTS or p.name in SCRIPT_NAMES)]


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: sizes.py ROOT")
    root = pathlib.Path(sys.argv[1])
    sources = [p for f in FOLDERS for p in sorted((root / f).rglob("*")) if p.suffix in SOURCES]
    headers = [p for p in sources if p.is_relative_to(root / "include")]
    if not headers:
        sys.exit(f"{root}/include: no headers; expected some")
    files = sources + scripts(root)
    found = 0
    lengths, functions = [], []
    for path in files:
        text = path.read_text()
        lines = text.splitlines()
        for number in wide_lines(path, text):
            print(f"{path}:{number}: more than {COLUMNS} columns", file=sys.stderr)
            found += 1
        if path.suffix in SOURCES:
            functions.extend(function_lengths(text))
        if path in headers:
            lengths.append(len(lines))
            if len(lines) > MOST and "Over 500" not in " ".join(lines[:4]).replace("// ", ""):
                print(f"{path}: {len(lines)} lines and no reason; "
                      f"expected {MOST} at most, or 'Over 500 lines because ...'", file=sys.stderr)
                found += 1
    median = statistics.median(lengths)
    short = sum(n <= FUNCTION for n in functions)
    print(f"{len(headers)} headers, the median of {median:g} lines; {short} of {len(functions)} functions have "
          f"{FUNCTION} lines at most; {len(files)} files with {found} breaches")
    if median > MEDIAN:
        sys.exit(f"a median of {median:g} lines; expected {MEDIAN} at most")
    if 10 * short < OF_TEN * len(functions):
        sys.exit(f"{short} of {len(functions)} functions have {FUNCTION} lines at most; expected {OF_TEN} of 10")
    sys.exit(found > 0)


main()
