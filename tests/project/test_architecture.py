"""What the page on architecture names is there, and it names every room; texts name no file that is gone."""

from __future__ import annotations

import importlib
import re
from functools import reduce
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "skyband"
PAGES = [ROOT / "docs" / "architecture.md", ROOT / "CONTRIBUTING.md"]
NAMED = re.compile(r"`((?:[a-z_]+/)*[a-z_]+)\.py(?::\s+([\w.]+))?`")


def named() -> list[tuple[str, str, str]]:
    """The modules and, where given, the names in them, by page."""
    found = []
    for page in PAGES:
        for path, name in NAMED.findall(page.read_text(encoding="utf-8")):
            if path.split("/")[0] not in ("tests", "docs"):
                found.append((page.name, path.removeprefix("src/skyband/"), name))
    return sorted({*found})


@pytest.mark.parametrize(("page", "path", "name"), named())
def test_what_is_named_is_there(page: str, path: str, name: str) -> None:
    module = importlib.import_module(f"skyband.{path.replace('/', '.')}")
    reduce(getattr, name.split(".") if name else (), module)


def test_every_room_is_on_the_page() -> None:
    text = PAGES[0].read_text(encoding="utf-8")
    rooms = {folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").exists()}
    assert rooms == {*re.findall(r"^\| `(\w+)/` \|", text, re.MULTILINE)}


ROOMS = sorted(path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.relative_to(PACKAGE).as_posix())
def test_a_room_says_in_which_order_to_read_it(room: Path) -> None:
    """Its docstring names every file; in `core` and `compiling` a few files need no order."""
    text = (room / "__init__.py").read_text(encoding="utf-8").split('"""')[1]
    files = {path.stem for path in room.glob("*.py")} - {"__init__"}
    if room.name not in ("core", "compiling"):
        assert files - {*re.findall(r"\w+", text)} == set()


def test_docstrings_and_comments_name_files_that_are_there() -> None:
    files = {path.name for path in ROOT.rglob("*.py") if ".venv" not in path.parts}
    gone = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in PACKAGE.rglob("*.py")
        if path.parent.name != "heightmap" and path.name != "lane.py"  # with a rewriting of their own
        for name in re.findall(r"[(\s`]([a-z_]+\.py)\b", path.read_text(encoding="utf-8"))
        if name not in files
    ]
    assert gone == []
