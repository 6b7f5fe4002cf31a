#!/usr/bin/python3
"""Makes a small set of English text out of the licenses that the system comes with.

    make_text.py OUT [--from FOLDER]

Reads the files in FOLDER, /usr/share/common-licenses by default, which Debian's package base-files installs, in the
order of their names; links are left out. White space is one space or one line break, and characters that are no ASCII
are left out. The first nine tenths of each file are for training and the rest for testing. A class is a character.
The format of OUT is in docs/formats.md. Needs Python's standard library alone.
"""

import argparse
import os
import re
import sys

sys.dont_write_bytecode = True  # the folder of the sources stays as it is
import sealed_file


def read_texts(folder):
    texts = []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and not os.path.islink(path):
            with open(path, "rb") as file:
                text = file.read().decode("ascii", "ignore")
            text = re.sub(r"[^\S\n]+", " ", text)
            text = re.sub(r" ?\n[ \n]*", "\n", text)
            texts.append("".join(c for c in text if c.isprintable() or c == "\n"))
    return texts


def main():
    parser = argparse.ArgumentParser(description="Makes a set of text out of the licenses that the system comes with.")
    parser.add_argument("out", metavar="OUT")
    parser.add_argument("--from", dest="folder", default="/usr/share/common-licenses", metavar="FOLDER")
    flags = parser.parse_args()

    texts = read_texts(flags.folder)
    train = "".join(text[: len(text) * 9 // 10] for text in texts)
    test = "".join(text[len(text) * 9 // 10 :] for text in texts)
    if len(test) < 1000:
        sys.exit(f"make_text: {flags.folder}: {len(train) + len(test)} characters; expected 10000 at least")
    alphabet = sorted(set(train + test))
    numbers = {c: i for i, c in enumerate(alphabet)}
    tensors = [
        (part + " samples", [len(text)], bytes(numbers[c] for c in text))
        for part, text in (("train", train), ("test", test))
    ]
    header = {"content": "text", "classes": len(alphabet), "alphabet": "".join(alphabet)}
    sealed_file.write_whole(flags.out, sealed_file.sealed("unity dataset 1\n", header, tensors))
    print(f"train: {len(train)} characters; test: {len(test)}; {len(alphabet)} different ones")


if __name__ == "__main__":
    try:
        main()
    except OSError as problem:
        sys.exit(f"make_text: {problem}")
