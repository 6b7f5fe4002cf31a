#!/usr/bin/env python3
"""The rooms of the library and what they include, as docs/architecture.md draws them.

usage: rooms.py [--write] ROOT

Without --write: exit code 1, and a line that says so, where the drawing in ROOT/docs/architecture.md is not that of ROOT/include.
An arrow leads from a room to one that it includes; those that follow from other arrows are left out."""
import pathlib
import re
import sys

BEGIN, END = "```mermaid\n", "```\n"


def includes(root):
    rooms = {}
    for path in sorted((root / "include" / "unity").glob("*/**/*.[ch][pu]*")):
        room = path.relative_to(root / "include" / "unity").parts[0]
        found = re.findall(r"^\s*#\s*include <unity/([a-z_0-9]+)/", path.read_text(), re.MULTILINE)
        rooms.setdefault(room, set()).update(r for r in found if r != room)
    if not rooms:
        sys.exit(f"{root}/include/unity: no headers; expected rooms")
    return rooms


def reached(rooms, room):
    seen, stack = set(), [room]
    while stack:
        for other in rooms[stack.pop()] - seen:
            seen.add(other)
            stack.append(other)
    return seen


def drawing(rooms):
    lines = [BEGIN, "graph TD\n"]
    for room in sorted(rooms):
        direct = rooms[room]
        kept = [r for r in sorted(direct) if not any(r in reached(rooms, other) for other in direct - {r})]
        lines += [f"  {room} --> {other}\n" for other in kept]
    return "".join(lines) + END


def main():
    arguments = [a for a in sys.argv[1:] if a != "--write"]
    if len(arguments) != 1:
        sys.exit(__doc__.split("\n")[2])
    root = pathlib.Path(arguments[0])
    page = root / "docs" / "architecture.md"
    text = page.read_text()
    begin = text.find(BEGIN)
    end = text.find(END, begin + len(BEGIN))
    if begin < 0 or end < 0:
        sys.exit(f"{page}: no block of mermaid; expected the drawing of the rooms")
    drawn = text[:begin] + drawing(includes(root)) + text[end + len(END):]
    if "--write" in sys.argv:
        page.write_text(drawn)
    elif drawn != text:
        sys.exit(f"{page}: another drawing than that of the includes; expected what docs/rooms.py --write makes")


main()
