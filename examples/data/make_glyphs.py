#!/usr/bin/python3
"""Makes a small set of images of digits, or of digits and upper-case letters, out of the console fonts of the system.

    make_glyphs.py OUT [--letters] [--fonts FOLDER] [--size 16]

Reads the bitmap fonts (PSF 1 and 2) in FOLDER, /usr/share/consolefonts by default, which Debian's package
console-setup-linux installs. Each glyph is cut out, scaled to fill an image of SIZE x SIZE but for a margin of one
pixel, and kept once. Fonts that have an image in common, such as one face for several alphabets, make a group, and a
group is either for training or, every fourth, for testing: no font, and no image, is in both.
The format of OUT is in docs/formats.md. Needs Python's standard library alone.
"""

import argparse
import glob
import gzip
import os
import struct
import sys

sys.dont_write_bytecode = True  # the folder of the sources stays as it is
import sealed_file

DIGITS = "0123456789"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Font:
    """Bitmaps of a PSF file by character."""

    def __init__(self, content):
        if content[:2] == b"\x36\x04":
            mode, self.height = content[2], content[3]
            count, self.width, begin, unicode_table = 512 if mode & 1 else 256, 8, 4, mode & 6
            self.stride = self.height
        elif content[:4] == b"\x72\xb5\x4a\x86":
            _, begin, flags, count, self.stride, self.height, self.width = struct.unpack("<7I", content[4:32])
            unicode_table = flags & 1
        else:
            raise ValueError("no PSF font")
        self.bitmaps = content[begin : begin + count * self.stride]
        if len(self.bitmaps) != count * self.stride:
            raise ValueError("cut short")
        table = content[begin + count * self.stride :]
        if not unicode_table:
            self.places = {chr(i): i for i in range(count)}
        elif content[:2] == b"\x36\x04":
            self.places = self.table_of_words(table)
        else:
            self.places = self.table_of_text(table)

    @staticmethod
    def table_of_words(table):
        """PSF 1: per glyph characters of 16 bits, after 0xfffe sequences of several, then 0xffff."""
        places, glyph, in_sequences = {}, 0, False
        for (word,) in struct.iter_unpack("<H", table[: len(table) // 2 * 2]):
            if word == 0xFFFF:
                glyph, in_sequences = glyph + 1, False
            elif word == 0xFFFE:
                in_sequences = True
            elif not in_sequences:
                places.setdefault(chr(word), glyph)
        return places

    @staticmethod
    def table_of_text(table):
        """PSF 2: per glyph characters in UTF-8, after 0xfe sequences of several, then 0xff."""
        places = {}
        for glyph, entry in enumerate(table.split(b"\xff")):
            for character in entry.split(b"\xfe")[0].decode("utf-8", "replace"):
                places.setdefault(character, glyph)
        return places

    def rows(self, character):
        """The part of the glyph that is not empty, as lists of 0 and 1; nothing where there is no such glyph."""
        place = self.places.get(character)
        if place is None or (place + 1) * self.stride > len(self.bitmaps):
            return None
        bitmap = self.bitmaps[place * self.stride : (place + 1) * self.stride]
        bytes_per_row = (self.width + 7) // 8
        columns = range(self.width)
        rows = [[bitmap[y * bytes_per_row + x // 8] >> (7 - x % 8) & 1 for x in columns] for y in range(self.height)]
        used_rows = [y for y in range(self.height) if any(rows[y])]
        if not used_rows:
            return None
        used = [x for x in columns if any(row[x] for row in rows)]
        return [row[used[0] : used[-1] + 1] for row in rows[used_rows[0] : used_rows[-1] + 1]]


def overlaps(small, big):
    """Of `big` equal pieces of the length `small`: how much of each unit lies in them, in parts of `big`."""
    def overlap(i, x):
        return max(0, min((x + 1) * big, (i + 1) * small) - max(x * big, i * small))

    return [[overlap(i, x) for x in range(small)] for i in range(big)]


def image(rows, size):
    """The glyph scaled by areas to `size` but for a margin of one, in the middle: levels from 0 to 255, in integers."""
    inner = size - 2
    height, width = len(rows), len(rows[0])
    scaled = max(1, min(inner, (2 * width * inner + height) // (2 * height)))  # keeps the proportions
    vertical, horizontal = overlaps(height, inner), overlaps(width, scaled)
    left = (size - scaled) // 2
    levels = bytearray(size * size)
    for y in range(inner):
        for x in range(scaled):
            ink = sum(
                v * h
                for v, row in zip(vertical[y], rows)
                if v
                for h, bit in zip(horizontal[x], row)
                if bit
            )
            levels[(y + 1) * size + left + x] = (2 * 255 * ink + height * width) // (2 * height * width)
    return bytes(levels)


def read_images(folder, characters, size):
    """Of each font file, its images by character."""
    fonts = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*.psf*"))):
        try:
            with open(path, "rb") as file:
                content = file.read()
            font = Font(gzip.decompress(content) if path.endswith(".gz") else content)
        except (OSError, ValueError, EOFError, struct.error) as problem:
            print(f"make_glyphs: {path}: {problem}; left out", file=sys.stderr)
            continue
        glyphs = {c: font.rows(c) for c in characters}
        if all(glyphs.values()):
            fonts[os.path.basename(path)] = {c: image(rows, size) for c, rows in glyphs.items()}
    return fonts


def groups_of(fonts):
    """Lists of fonts, in order: those that share an image, directly or by way of others, are in one."""
    groups = []
    for name, images in fonts.items():
        own = ([name], set(images.items()))
        others = []
        for group in groups:
            if group[1] & own[1]:
                own = (group[0] + own[0], group[1] | own[1])
            else:
                others.append(group)
        groups = others + [own]
    return sorted(sorted(names) for names, _ in groups)


def samples_of(fonts, names, characters):
    """Pixels and labels: each different image once, by font, then by character."""
    seen = set()
    pixels, labels = b"", b""
    for name in names:
        for label, character in enumerate(characters):
            content = fonts[name][character]
            if (character, content) not in seen:
                seen.add((character, content))
                pixels += content
                labels += bytes([label])
    return pixels, labels


def main():
    parser = argparse.ArgumentParser(description="Makes a set of images of characters out of console fonts.")
    parser.add_argument("out", metavar="OUT")
    parser.add_argument("--letters", action="store_true", help="upper-case letters, too: 36 classes")
    parser.add_argument("--fonts", default="/usr/share/consolefonts", metavar="FOLDER")
    parser.add_argument("--size", type=int, default=16, choices=range(8, 65), metavar="SIZE", help="8 to 64, pixels")
    flags = parser.parse_args()
    characters = DIGITS + (LETTERS if flags.letters else "")

    fonts = read_images(flags.fonts, characters, flags.size)
    groups = groups_of(fonts)
    if len(groups) < 4:
        sys.exit(
            f"make_glyphs: {flags.fonts}: {len(groups)} different fonts with these characters; expected 4 at least, "
            "such as Debian's package console-setup-linux has"
        )
    parts = {
        "train": [name for i, group in enumerate(groups) if i % 4 != 3 for name in group],
        "test": [name for i, group in enumerate(groups) if i % 4 == 3 for name in group],
    }
    tensors = []
    for part, names in parts.items():
        pixels, labels = samples_of(fonts, names, characters)
        tensors.append((part + " samples", [len(labels), flags.size, flags.size], pixels))
        tensors.append((part + " labels", [len(labels)], labels))
        print(f"{part}: {len(labels)} images of {len(characters)} characters, {len(names)} font files")
    header = {"content": "images", "classes": len(characters), "sources": parts}
    sealed_file.write_whole(flags.out, sealed_file.sealed("unity dataset 1\n", header, tensors))


if __name__ == "__main__":
    try:
        main()
    except OSError as problem:
        sys.exit(f"make_glyphs: {problem}")
