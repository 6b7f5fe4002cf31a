#!/usr/bin/env python3
"""quotes.py ROOT [FILE...]: what the documentation quotes is what is compiled, and what it links to exists.

A code block names a file, ```cpp examples/x.cpp, and must stand in that file line for line, indentation apart. All must
name one but commands, what they print (commands.py) and drawings (docs/rooms.py). Without FILE, reads README.md,
CHANGELOG.md and docs/**/*.md under ROOT.
"""
import pathlib
import re
import sys
import textwrap


def contains(text, quote):
    lines = text.splitlines()
    wanted = textwrap.dedent(quote).strip("\n").splitlines()
    for start in range(len(lines) - len(wanted) + 1):
        if textwrap.dedent("\n".join(lines[start:start + len(wanted)])).splitlines() == wanted:
            return True
    return False


def check_block(root, info, block):
    language, _, source = info.partition(" ")
    if language in ("sh", "mermaid") or info.startswith("text printed"):
        return None
    if not source:
        return f"a block of {language or 'nothing'} that names no file"
    path = root / source
    if not path.is_file():
        return f"a quote of {source}, which does not exist"
    if not block.strip():
        return f"an empty quote of {source}"
    if not contains(path.read_text(), block):
        return f"a quote that is not in {source}"
    return None


def check_links(root, path, line):
    for target in re.findall(r"\]\(([^)\s]+)\)", line) + re.findall(r'src="([^"]+)"', line):
        target = target.split("#")[0]
        if target and "://" not in target and not (path.parent / target).resolve().is_relative_to(root):
            yield f"a link out of the project: {target}"
        elif target and "://" not in target and not (path.parent / target).exists():
            yield f"a link to {target}, which does not exist"


def check_file(root, path):
    info = None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fence = re.match(r"\s*```(.*)$", line)
        if info is None and fence:
            info, start, block = fence.group(1).strip(), number, []
        elif info is not None and fence:
            problem = check_block(root, info, "\n".join(block))
            if problem:
                yield start, problem
            info = None
        elif info is not None:
            block.append(line)
        else:
            for problem in check_links(root, path, line):
                yield number, problem
    if info is not None:
        yield start, "a code block without an end"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    files = [pathlib.Path(f).resolve() for f in sys.argv[2:]]
    files = files or [root / "README.md", root / "CHANGELOG.md", *sorted(root.glob("docs/**/*.md"))]
    breaches = 0
    for path in files:
        for number, problem in check_file(root, path):
            print(f"{path.relative_to(root)}:{number}: {problem}")
            breaches += 1
    print(f"{len(files)} files, {breaches} breaches")
    sys.exit(1 if breaches else 0)


main()
