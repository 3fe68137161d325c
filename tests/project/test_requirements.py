"""The requirements files are pinned, hashed, and say nothing of where they were made."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = ["requirements-build.txt", "requirements.txt", "requirements-dev.txt"]
SOAK = "requirements-soak.txt"  # in an environment of its own


def blocks(name: str) -> list[str]:
    """One text for each requirement, its hashes included."""
    text = (ROOT / name).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    return re.split(r"\n(?=\S)", "\n".join(lines).strip())


@pytest.mark.parametrize("name", [*FILES, SOAK])
def test_every_requirement_is_pinned_and_hashed(name: str) -> None:
    for block in blocks(name):
        assert re.match(r"[a-z0-9][a-z0-9._-]*(\[[a-z,]+\])?==[^\s;]+( ; .+)? \\\n", block), block[:200]
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", block), block[:200]


@pytest.mark.parametrize("name", [*FILES, SOAK])
def test_no_addresses_and_no_paths(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "://" not in text
    assert "--index-url" not in text
    assert "--find-links" not in text
    for line in text.splitlines():
        assert not re.search(r"(^|\s)[./~]*/", line), line


def test_the_files_agree() -> None:
    """A package that two files name has the same version in both, or pip would install one over the other."""
    versions: dict[str, set[str]] = {}
    for name in FILES:
        found: dict[str, set[str]] = {}
        for block in blocks(name):
            package, version = re.match(r"([a-z0-9._-]+)(?:\[.*?\])?==([^\s;]+)", block).groups()
            found.setdefault(package, set()).add(version)
        for package, here in found.items():
            assert versions.setdefault(package, here) == here, f"{package} in {name}"


def test_running_needs_no_development_tools() -> None:
    assert not {block.split("==")[0] for block in blocks("requirements.txt")} & {
        "pytest",
        "mypy",
        "ruff",
        "duckdb",
    }
