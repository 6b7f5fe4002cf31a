#!/usr/bin/env python3
"""Who includes whom, as docs/architecture.md draws it: a block of mermaid whose first line names
a folder has its folders.

usage: rooms.py [--write] ROOT

Without --write: exit code 1, and a line that says so, where a drawing in ROOT/docs/architecture.md is not that
of the includes; in both cases where folders include each other in a circle. An arrow leads from a folder to one
that it includes; those that follow from other arrows are left out, and so is the folder itself, which all of
its folders may include."""
import pathlib
import re
import sys

BLOCK = re.compile(r"```mermaid\n%% (include/\S+)\n.*?```\n", re.DOTALL)


def includes(root, folder):
    inside = folder.removeprefix("include/")
    found = {}
    for path in sorted((root / folder).rglob("*.[hc][pu]*")):
        parts = path.relative_to(root / folder).parts
        if len(parts) > 1:
            names = re.findall(rf"^\s*#\s*include <{inside}/([a-z_0-9]+)/", path.read_text(), re.MULTILINE)
            found.setdefault(parts[0], set()).update(n for n in names if n != parts[0])
    if not found:
        sys.exit(f"{root}/{folder}: no folders with headers; expected some to draw")
    return found


def reached(found, name):
    seen, stack = set(), [name]
    while stack:
        for other in found[stack.pop()] - seen:
            seen.add(other)
            stack.append(other)
    return seen


def drawing(root, folder):
    found = includes(root, folder)
    lines = [f"```mermaid\n%% {folder}\ngraph TD\n"]
    for name in sorted(found):
        if name in reached(found, name):
            sys.exit(f"{root}/{folder}/{name}: includes itself by way of others; expected includes to run down")
        kept = [n for n in sorted(found[name]) if not any(n in reached(found, other) for other in found[name] - {n})]
        lines += [f"  {name} --> {other}\n" for other in kept] or [f"  {name}\n"]
    return "".join(lines) + "```\n"


def main():
    arguments = [a for a in sys.argv[1:] if a != "--write"]
    if len(arguments) != 1:
        sys.exit(__doc__.split("\n\n")[1])
    root = pathlib.Path(arguments[0])
    page = root / "docs" / "architecture.md"
    text = page.read_text()
    if not BLOCK.search(text):
        sys.exit(f"{page}: no block of mermaid that names a folder; expected the drawing of the rooms")
    drawn = BLOCK.sub(lambda block: drawing(root, block.group(1)), text)
    if "--write" in sys.argv:
        page.write_text(drawn)
    elif drawn != text:
        sys.exit(f"{page}: other drawings than those of the includes; expected what docs/rooms.py --write makes")


main()
