"""A missing part is a skip by name on a laptop, and a failure in CI."""

from __future__ import annotations

import pytest
from tests.parts import found


def test_what_is_there_is_used() -> None:
    found("the moon", None)


def test_what_is_missing_is_skipped_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"the moon: it is new"):
        found("the moon", "it is new")


def test_what_is_missing_in_ci_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=r"the moon: it is new"):
        found("the moon", "it is new")
