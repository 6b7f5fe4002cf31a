#!/usr/bin/env python3
"""concepts.py ROOT: docs/concepts.md describes every concept of include/.

Each concept is named in it, but for the pieces of others (has_...) and those of implementations (namespaces `detail`);
each section names a concept and the header that states it, and has its expressions, laws, complexity, models
and non-models."""
import pathlib
import re
import sys

DETAIL = re.compile(r"namespace [\w:]*detail \{.*?\n\}  // namespace [\w:]*detail", re.DOTALL)
PARTS = {"expressions": r"^\| expression \|", "laws": r"^- Laws?:", "complexity": r"^- Complexity:",
         "models": r"^- Models?:", "non-models": r"^- Not (?:a model|models):"}


def stated(include):
    """Name of each public concept -> the header that states it."""
    found = {}
    for path in sorted(include.rglob("*.hpp")):
        for name in re.findall(r"^concept (\w+)", DETAIL.sub("", path.read_text()), re.MULTILINE):
            found[name] = path.relative_to(include / "unity").as_posix()
    return found


def breaches(page, concepts):
    named = set(re.findall(r"`(?:\w+::)*(\w+)(?:<[^`]*>)?`", page))
    for name, header in concepts.items():
        if name not in named and not name.startswith("has_"):
            yield f"{name} ({header}) is not described"
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        title = section.splitlines()[0]
        heading = re.match(r"`(\w+)[^`]*` — `([^`]+)`$", title)
        if not heading or concepts.get(heading.group(1)) != heading.group(2):
            yield f"'{title}' names no concept and its header"
        for part, pattern in PARTS.items():
            if not re.search(pattern, section, re.MULTILINE):
                yield f"'{title}' has no {part}"


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: concepts.py ROOT")
    root = pathlib.Path(sys.argv[1])
    concepts = stated(root / "include")
    found = list(breaches((root / "docs/concepts.md").read_text(), concepts))
    for breach in found:
        print(f"docs/concepts.md: {breach}", file=sys.stderr)
    print(f"{len(concepts)} concepts, {len(found)} breaches")
    sys.exit(not concepts or len(found) > 0)


main()
