"""Bytes as text of seven bits, and back."""

from __future__ import annotations

import numpy as np
import pytest

from skyband.core.errors import InputError
from skyband.spark.executors.merging import state_bytes
from skyband.spark.executors.seven import from_text, to_text

SIZES = [*range(20), 63, 64, 65, 511, 512, 513, 4095, 4097, 100_001]


@pytest.mark.parametrize("size", SIZES)
def test_there_and_back(size: int) -> None:
    chance = np.random.default_rng(size)
    for data in (chance.bytes(size), b"\xff" * size, b"\x80" * size, bytes(size)):
        text = to_text(data)
        assert text.isascii()
        assert len(text) <= size + size / 7 + 30
        assert from_text(text) == data


def test_what_is_no_such_text_is_refused() -> None:
    text = to_text(b"some bytes \xe4\xf6\xfc")
    for wrong in ("", ":", "x", text[1:], text[:-1], text + "\0", "9" + text, f"-{text}", text[:-1] + "ä"):
        assert from_text(wrong) is None
    with pytest.raises(InputError, match="is damaged"):
        state_bytes(text[:-1])
