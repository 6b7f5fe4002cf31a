#!/usr/bin/env python3
"""reference.py SOURCE FOLDER: writes the reference with doxygen into FOLDER. It may warn of nothing, and the comments
must be in it: what each header is for, and of each kind of declaration a few sentences."""

import html
import pathlib
import re
import shutil
import subprocess
import sys
import time

SKIPPED = 77  # to ctest

SENTENCES = {
    "a class": "A fixed set of threads that run one loop at a time.",
    "a member function": "The assignment of chunks to workers is not deterministic: write results by index.",
    "a function": "Offsets such that values which are alive at one step never overlap.",
    "a section of a comment": "Source Pisarchyk and Lee, Efficient memory management for deep neural net inference",
    "a comment behind a member": "proposals without improvement before returning to the best; 0: never",
    "a function object": "Expands the cheapest state until no state within alpha of the best is left",
    "a concept": "Enumerable moves with local prices (rewriting, fusion).",
    "what is set out in columns": "moves(state) all moves that may apply, in a stable order;",
    "a list": "A move is rejected as soon as the new tasks of operators, then edges, then weights",
    "code in a comment": "matmul(x, matmul(y, z)) == matmul(matmul(x, y), z)",
    "a macro": "A precondition of a public function.",
    "README.md": "unity rewrites a computation graph into a cheaper one",
}


def plain(text):
    """Words as a reader sees them."""
    return re.sub(r" ([,.;:)])", r"\1", re.sub(r"\s+", " ", re.sub(r"[`\\]", "", text)))


def words_of(folder):
    """All that the reference says."""
    pages = (p.read_text(encoding="utf-8") for p in sorted((folder / "xml").glob("*.xml")))
    pages = (re.sub(r"<[^>]*>", " ", re.sub(r"</?(ref|computeroutput)\b[^>]*>", "", page)) for page in pages)
    return plain(html.unescape(" ".join(pages)))


def file_sentences(source):
    """What each header says it is for: its first line."""
    for header in sorted([*(source / "include").rglob("*.hpp"), *(source / "include").rglob("*.cuh")]):
        first = header.read_text(encoding="utf-8").split("\n", 1)[0]
        if "detail" not in header.parts:
            yield str(header.relative_to(source)), first.removeprefix("//").strip()


def main():
    source, folder = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
    if not shutil.which("doxygen"):
        print("reference: skipped: no doxygen (apt-get install doxygen)")
        return SKIPPED
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    options = ((source / "docs/Doxyfile").read_text(encoding="utf-8") +
               f"\nOUTPUT_DIRECTORY = \"{folder}\"\nGENERATE_XML = YES\nXML_PROGRAMLISTING = NO\n")
    start = time.monotonic()
    run = subprocess.run(["doxygen", "-"], cwd=source, input=options, capture_output=True, text=True)
    seconds = time.monotonic() - start

    faults = run.stderr.splitlines()
    if run.returncode != 0 and not faults:
        faults.append(f"doxygen: exit code {run.returncode}; expected 0")
    text = words_of(folder)
    looked_for = [*SENTENCES.items(), *file_sentences(source)]
    faults += [f"{where}: not in the reference: {sentence}"
               for where, sentence in looked_for if plain(sentence) not in text]
    for f in faults:
        print(f"reference: {f}")
    print(f"reference: {len(looked_for)} sentences looked for, {len(faults)} faults, {seconds:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
