#!/usr/bin/env python3
"""amalgamate.py HEADER OUT [--include DIR]: one file that stands for HEADER and all that it includes of its library.

HEADER is a file, or a name under DIR, where the library's headers are (if not said, include/ of this project). Each of
them is put in once, where it is first needed; what is not under DIR is included at the top. The file is header-only:
what unity::compiled would define is in it.
"""
import argparse
import os
import pathlib
import re
import sys
import tempfile

PROJECT = pathlib.Path(__file__).resolve().parent.parent

# What may go over several lines, and what is needed to tell where such begins: a line that begins inside of a comment
# or of a raw string is not a directive.
TOKEN = re.compile(r"""
    //(?:\\\n|[^\n])*             | /\*(?s:.*?)\*/
  | (?:u8|[uUL])?R"(?P<end>[^()\\\s]{0,16})\((?s:.*?)\)(?P=end)"
  | "(?:\\.|[^"\\\n])*"           | '(?:\\.|[^'\\\n])*'
  | [A-Za-z_]\w*                  | \.?\d(?:'?[\w.])*
""", re.VERBOSE)
DIRECTIVE = re.compile(r"\s*#\s*(\w+)\s*(.*)")
# The #if around what a header defines unless unity::compiled does. A file that stands for headers always defines it.
DEFINED_HERE = re.compile(r"!defined\(UNITY_COMPILED\) \|\| defined\(UNITY_DEFINE_\w+\)")
INCLUDED = re.compile(r'<([^>]+)>|"([^"]+)"')


class problem(Exception):
    pass


def read(path):
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise problem(f"{path}: not UTF-8, expected C++ source") from None


def lines_of(text):
    """Each line, and the directive on it with its argument, if there is one."""
    inside = set()
    for token in TOKEN.finditer(text):
        if "\n" in token.group():
            first = text.count("\n", 0, token.start()) + 1
            inside.update(range(first, first + token.group().count("\n")))
    for number, line in enumerate(text.removesuffix("\n").split("\n")):
        found = None if number in inside else DIRECTIVE.match(line)
        yield line, number not in inside, *(found.groups() if found else (None, ""))


class amalgamation:
    """The text of a header with what it includes. Where that is asked for in an #if, it is put in there, behind a macro
    of its own, as it may be needed again elsewhere; what is not the library's stays in the #if as it is."""

    def __init__(self, root):
        self.root = root
        self.text = []        # lines
        self.others = set()   # what is included at the top
        self.open = []        # headers that are being put in
        self.done = set()     # headers that are there whatever the macros are
        self.guarded = set()  # headers that an #if decides about

    def name(self, path):
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else path.name

    def add(self, path, on_condition=False):
        if path in self.done or path in self.open:  # as #pragma once has it
            return
        guard = "UNITY_AMALGAMATED_" + re.sub(r"\W", "_", self.name(path)).upper()
        guarded = on_condition or path in self.guarded
        (self.guarded if on_condition else self.done).add(path)
        self.open.append(path)
        self.text += [""] * (self.text[-1:] != [""])
        self.text += [f"// {self.name(path)}"] + [f"#ifndef {guard}", f"#define {guard}"] * guarded
        self.add_lines(path, on_condition)
        self.text += ["#endif"] * guarded
        self.open.pop()

    def add_lines(self, path, on_condition):
        depth = 0
        left_out = None  # the depth outside of the #if that is left out
        for number, (line, is_code, directive, argument) in enumerate(lines_of(read(path)), 1):
            place = f"{self.name(path)}:{number}"
            if directive == "if" and DEFINED_HERE.fullmatch(argument):
                left_out, line = depth, None
            elif directive == "endif" and depth == left_out:
                left_out = line = None
                directive = None
            else:
                depth += {"if": 1, "ifdef": 1, "ifndef": 1, "endif": -1}.get(directive, 0)
            if directive in ("if", "elif") and re.search(r"__has_include\s*\(\s*[<\"]unity/", argument):
                raise problem(f"{place}: __has_include of the library's own header, which one file cannot answer")
            if directive == "include":
                line = self.include(path, place, line, argument, on_condition or depth > 0)
            elif directive == "pragma" and argument.split()[:1] == ["once"]:
                line = None
            if line is not None and (line or not is_code or self.text[-1]):  # of blank lines, one
                self.text.append(line)
        if depth != 0:
            raise problem(f"{self.name(path)}: an #if without an #endif, expected one for each")

    def include(self, path, place, line, argument, on_condition):
        """Puts in what is included, or returns the line that stays."""
        found = INCLUDED.match(argument)
        if not found:
            raise problem(f"{place}: an #include of {argument or 'nothing'}, expected <name> or \"name\"")
        name = found[1] or found[2]
        for folder in ([] if found[1] else [path.parent]) + [self.root]:
            header = (folder / name).resolve()
            if header.is_file():
                return self.add(header, on_condition)
        if name.startswith("unity/"):
            raise problem(f"{place}: includes {name}, which is not in {self.root}")
        if on_condition:
            return line
        self.others.add(f"#include {found[0]}")
        return None


def version_of(root):
    config = root / "unity/core/config.hpp"
    parts = re.findall(r"^#define UNITY_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", read(config), re.MULTILINE)
    if len(parts) != 3:
        raise problem(f"{config}: no version, expected UNITY_VERSION_MAJOR, _MINOR and _PATCH")
    return ".".join(parts)


def amalgamate(header, root):
    path = next((p.resolve() for p in (root / header, pathlib.Path(header)) if p.is_file()), None)
    if path is None:
        raise problem(f"{header}: no such header, neither in {root} nor as a file")
    made = amalgamation(root)
    made.add(path)
    name = made.name(path)
    title = f"// unity {version_of(root)} (Apache License 2.0): {name} as one file, made by cmake/amalgamate.py"
    header_only = ["#ifdef UNITY_COMPILED", '#error "a file that is header-only, expected no UNITY_COMPILED"', "#endif",
                   ""]
    return "\n".join([title, "#pragma once", "", *header_only, *sorted(made.others), *made.text]) + "\n"


def write_whole(path, text):
    """All of it or nothing: a file of this name that was there stays until the new one is complete."""
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise problem(f"{path}: not a regular file, expected one or none")
    part = None
    try:
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with open(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(part, 0o644)
        os.replace(part, path)
    except OSError as what:
        if part is not None:
            os.unlink(part)
        raise problem(f"{path}: cannot be written: {what.strerror}") from None


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("header", metavar="HEADER")
    arguments.add_argument("out", metavar="OUT", type=pathlib.Path)
    arguments.add_argument("--include", metavar="DIR", type=pathlib.Path, default=PROJECT / "include")
    given = arguments.parse_args()
    try:
        write_whole(given.out, amalgamate(given.header, given.include.resolve()))
    except problem as what:
        sys.exit(f"amalgamate: {what}")
    except OSError as what:
        sys.exit(f"amalgamate: {what.filename}: {what.strerror}")


main()
