"""The pages in docs/benchmarks are what their figures make."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.harness.claims import Book
from benchmarks.papers.mouratidis.page import BOOK as MOURATIDIS
from benchmarks.papers.pripuzic.page import BOOK as PRIPUZIC
from benchmarks.papers.shen.page import BOOK as SHEN
from benchmarks.peers.heightmap import BOOK as HEIGHTMAP
from benchmarks.peers.planner import BOOK as PLANNER
from benchmarks.peers.streams import BOOK as STREAMS
from benchmarks.serve.page import BOOK as SERVE
from benchmarks.spark.experiment import BOOK as SPARK

DOCS = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"
# the figures of haghani are not kept
BOOKS = (MOURATIDIS, PRIPUZIC, SHEN, HEIGHTMAP, PLANNER, STREAMS, SERVE, SPARK)


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.name)
def test_a_page_is_what_its_figures_make(book: Book, tmp_path: Path) -> None:
    shutil.copytree(DOCS / book.name, tmp_path / book.name)
    written = book.page(tmp_path).read_text(encoding="utf-8")
    assert written == (DOCS / f"{book.name}.md").read_text(encoding="utf-8")
