#!/usr/bin/env python3
"""details.py ROOT: a `detail` is used in its own room only.

A room is a folder of include/unity. Prints each #include of a file in the folder `detail` of another room, and each
name that is qualified by the namespace `detail` of another room, in include/, examples/ and bench/, and exits with 1
where there is one. Tests may use both.

A room's namespace has its name. Rooms without such a namespace declare in `unity` itself and share `unity::detail`:
there, a name is a room's own if the room mentions it within a block `namespace unity::detail {`.
"""
import pathlib
import re
import sys

SOURCES = {".cpp", ".hpp", ".cu", ".cuh"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"](unity/(\w+)/(?:[^>"]*/)?detail/[^>"]*)', re.MULTILINE)
QUALIFIED = re.compile(r"(?<!\w)((?:(?:\w+::)+|::)detail\b|(?<!:)detail(?=::))(?:::(\w+))?")
BLOCK = re.compile(r"^namespace (unity::)?detail \{\n(.*?)^\}  // namespace", re.MULTILINE | re.DOTALL)
# What is not code: text and comments.
LITERALS = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def without_literals(text):
    return LITERALS.sub(lambda m: "\n" * m.group().count("\n"), text)


class rooms:
    def __init__(self, include):
        self.files = {p: p.read_text(encoding="utf-8") for p in sorted((include / "unity").rglob("*"))
                      if p.suffix in SOURCES}
        self.folder = include / "unity"
        self.all = {self.of(p) for p in self.files} - {None}
        self.own = {r for r in self.all if any(f"\nnamespace unity::{r} {{" in f"\n{t}" or
                                               f"\nnamespace unity::{r}::" in f"\n{t}"
                                               for p, t in self.files.items() if self.of(p) == r)}
        self.shared = {r: set() for r in self.all - self.own}  # the words in each one's unity::detail
        for path, text in self.files.items():
            if self.of(path) in self.shared:
                for block in BLOCK.finditer(text):
                    self.shared[self.of(path)].update(re.findall(r"\w+", without_literals(block[2])))

    def of(self, path):
        """The room of a file; nothing for umbrellas and programs."""
        parts = path.relative_to(self.folder).parts if path.is_relative_to(self.folder) else ()
        return parts[0] if len(parts) > 1 else None

    def owner(self, user, namespaces, name):
        """The other room whose `detail` the name is from; nothing if it is the user's own."""
        absolute = namespaces[:1] == ["unity"]
        inner = namespaces[1:] if absolute else namespaces
        if inner and inner[0] in self.own:
            return None if inner[0] == user else inner[0]
        if user is None:
            return "another room" if namespaces else None  # programs may have a `detail` of their own
        if inner or (user in self.own and not absolute):
            return None  # a namespace within the user's own
        if user in self.shared and (not name or name in self.shared[user]):
            return None
        return next((r for r in sorted(self.shared) if name in self.shared[r]), "another room")


def breaches(path, text, known):
    room = known.of(path)
    for m in INCLUDE.finditer(text):
        if m[2] != room:
            yield text.count("\n", 0, m.start()) + 1, f"<{m[1]}> is in the folder detail of {m[2]}"
    text = without_literals(text)
    for m in QUALIFIED.finditer(text):
        namespaces = [n for n in m[1].split("::") if n][:-1]
        owner = known.owner(room, namespaces, m[2])
        if owner:
            yield text.count("\n", 0, m.start()) + 1, f"{m[0]} is in the namespace detail of {owner}"


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: details.py ROOT")
    root = pathlib.Path(sys.argv[1])
    known = rooms(root / "include")
    if not known.files:
        sys.exit(f"{root}/include/unity: no headers; expected some")
    programs = [p for f in ("examples", "bench") for p in sorted((root / f).rglob("*")) if p.suffix in SOURCES]
    files = {**known.files, **{p: p.read_text(encoding="utf-8") for p in programs}}
    found = 0
    for path, text in files.items():
        for number, what in breaches(path, text, known):
            print(f"{path.relative_to(root)}:{number}: {what}")
            found += 1
    print(f"{len(files)} files, {found} breaches")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
