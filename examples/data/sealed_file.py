"""Writes unity's sealed files, which are refused when cut short or altered (docs/formats.md)."""

import json
import os
import struct
import tempfile

WORD = (1 << 64) - 1


def mix64(x):
    x = (x + 0x9E3779B97F4A7C15) & WORD
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
    return x ^ (x >> 31)


def combine(seed, word):
    return mix64(seed ^ ((mix64(word) + 0x9E3779B97F4A7C15 + (seed << 6) + (seed >> 2)) & WORD))


def checksum(content):
    """Of words of 8 bytes, the last filled up with zeros, then of the length: unity/core/hash.hpp, `hasher`."""
    low, high = 0x243F6A8885A308D3, 0x13198A2E03707344
    padded = content + bytes(-len(content) % 8)
    for word in struct.unpack(f"<{len(padded) // 8}Q", padded) + (len(content),):
        low = combine(low, word)
        high = combine(high ^ 0xA0761D6478BD642F, (word + low) & WORD)
    return struct.pack("<QQ", low, high)


def aligned(content):
    return content + bytes(-len(content) % 64)


def sealed_whole(line, header, values):
    """The bytes of a file: a line of 16 bytes, a header, and tensors that lie where it says."""
    text = json.dumps(header, sort_keys=True).encode()
    begin = len(aligned(bytes(32 + len(text))))
    lengths = struct.pack("<QQ", begin + len(values) + 16, len(text))
    content = aligned(line.encode() + lengths + text) + values
    return content + checksum(content)


def sealed(line, header, tensors):
    """The same, of tensors of type uint8, each (name, dims, bytes), which the header is to list."""
    values = b""
    listed = []
    for name, dims, content in tensors:
        values = aligned(values)
        listed.append({"name": name, "kind": "", "element": "uint8", "dims": dims, "offset": len(values)})
        values += content
    return sealed_whole(line, dict(header, tensors=listed), values)


def write_whole(path, content):
    """The file holds all of the content, or what it held before."""
    folder, name = os.path.split(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=name + ".")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
