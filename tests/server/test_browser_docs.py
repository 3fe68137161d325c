"""The OpenAPI page in a real browser: Swagger UI's own files, under the content security policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from skyband.server.testing import Running

from .test_browser import PATIENCE, browser

__all__ = ["browser"]


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    context.set_default_timeout(PATIENCE)
    yield context.new_page()
    context.close()


def test_the_page_of_all_addresses(page: Any, server: Running) -> None:
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on(
        "request",
        lambda asked: wrong.append(asked.url) if not asked.url.startswith((server.url, "data:")) else None,
    )
    page.goto(f"{server.url}/docs")
    page.wait_for_selector("#operations-stats-getApiStats")
    page.click("#operations-stats-getApiStats button.opblock-summary-control")
    page.click("text=Try it out")
    page.click("text=Execute")
    page.wait_for_selector(".live-responses-table .microlight")
    assert "rows_per_second" in page.inner_text(".live-responses-table")
    assert wrong == []
