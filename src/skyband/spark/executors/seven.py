"""Bytes as text of seven bits, for a state that Spark hands to Python.

**Problem.** Spark pickles the state of `applyInPandasWithState` for every batch, and its pickler makes a text of an
array of bytes: character by character, two bytes for half of them. For a state of 1.3 MB that is two fifths of the
processor time that tasks take in the JVM; and Python has to make bytes of it again.

**Idea.** A text whose characters are all below 128 is copied as it is, by the JVM and by Python. So the low seven bits
of every byte are a character, and the high bits, eight to a byte, follow in the same way, until only one is left: a
seventh more bytes, and a few passes of numpy over them.
"""

from __future__ import annotations

import numpy as np


def to_text(data: bytes) -> str:
    """A text of seven bits that says the same: the number of bytes, a colon, and one layer after the other."""
    head = f"{len(data)}:".encode()
    sizes = _layers(len(data))
    found = np.empty(len(head) + sum(sizes) + bool(sizes), dtype=np.uint8)
    found[: len(head)] = np.frombuffer(head, dtype=np.uint8)
    rest, at = np.frombuffer(data, dtype=np.uint8), len(head)
    for size in sizes:
        np.bitwise_and(rest, 127, out=found[at : at + size])
        rest = np.packbits(rest > 127, bitorder="little")
        at += size
    found[at:] = rest  # one bit, if there is anything
    return str(found.data, "ascii")


def from_text(text: str) -> bytes | None:
    """What `to_text` was given; None if this is no such text."""
    count, colon, _ = text[:24].partition(":")
    if not (colon and text.isascii() and count.isdigit()):
        return None
    sizes = _layers(int(count))
    data = np.frombuffer(text.encode("ascii"), dtype=np.uint8)[len(count) + 1 :]
    if len(data) != sum(sizes) + bool(sizes):
        return None
    found, end = data[-1:], len(data) - 1
    for size in reversed(sizes):
        high = np.unpackbits(found, count=size, bitorder="little")
        high <<= 7
        found = np.bitwise_or(high, data[end - size : end], out=high)
        end -= size
    return found.tobytes()


def _layers(size: int) -> list[int]:
    """How many characters each layer has."""
    found = [size] if size else []
    while size > 1:
        size = -(-size // 8)
        found.append(size)
    return found
