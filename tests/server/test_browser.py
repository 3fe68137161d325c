"""The dashboard, used as a person uses it: a real server, Debian's Chromium, and what is on the screen."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.parts import found, install

ROOT = Path(__file__).resolve().parents[2]
# milliseconds until something that is awaited counts as missing: with an empty cache, where processes wait up to a
# minute for each other's kernels, a minute was once too short
PATIENCE = 150_000
NAMES = ("chromium", "chromium-browser", "google-chrome")
SQL = "SELECT name, x FROM s ORDER BY x DESC LIMIT 3 WINDOW 50 ROWS"


def chromium() -> str | None:
    path = next((path for name in NAMES if (path := shutil.which(name))), None)
    if path is None:
        install("chromium")
        path = shutil.which("chromium")
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    try:
        from playwright.sync_api import expect, sync_playwright
    except ImportError:
        found("chromium", "the package playwright is not installed")
    path = chromium()
    found("chromium", None if path else "it is not on the path: apt-get install chromium")
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield opened
        opened.close()


class Server:
    """`skyband serve` in a process of its own; a few rows are not worth compiling for."""

    def __init__(self, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "skyband.cli", "serve", "--in-memory", "--port", "0", *options],
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "NUMBA_DISABLE_JIT": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        match = re.search(r"http://\S+", line)
        assert match, f"the server said {line!r}"
        self.url = match[0]

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(120)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.stop()


class Person:
    """Somebody at a page, who notices whatever goes wrong in it."""

    def __init__(self, browser: Any, url: str, **how: Any) -> None:
        self.context = browser.new_context(
            viewport=how.pop("viewport", {"width": 1280, "height": 900}), **how
        )
        self.context.set_default_timeout(PATIENCE)
        self.page = self.context.new_page()
        self.wrong: list[str] = []
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", self._console)
        self.page.on("dialog", lambda dialog: self.wrong.append(f"a dialog says {dialog.message}"))
        self.url = url

    def _console(self, message: Any) -> None:
        # that a refused request shows there is the browser's doing
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.wrong.append(message.text)

    def open(self, place: str = "") -> Person:
        self.page.goto(f"{self.url}/{place}")
        self.page.wait_for_selector("#status[data-state=live]")
        return self

    def ask(self, sql: str, name: str) -> None:
        self.page.click("#open-editor")
        self.page.fill("#sql", sql)
        self.page.fill("#query-name", name)
        self.page.wait_for_selector("#save:enabled")
        self.page.click("#save")
        self.page.wait_for_selector("#editor:not([open])", state="attached")

    def push(self, rows: str, stream: str = "s", end: str = "good") -> None:
        self.page.click("#open-push")
        self.page.fill("#push-stream", stream)
        self.page.fill("#rows", rows)
        self.page.wait_for_selector("#push:enabled")
        self.page.click("#push")
        self.page.wait_for_selector(f"#push-word[data-kind={end}]")
        self.page.keyboard.press("Escape")
        self.page.wait_for_selector("#pusher:not([open])", state="attached")

    def names(self, board: str = "#detail-board") -> list[str]:
        return list(self.page.locator(f"{board} tbody .c0").all_text_contents())

    def sees(self, names: list[str], board: str = "#detail-board") -> None:
        """The board comes to show these, from the first rank on."""
        from playwright.sync_api import expect

        try:
            expect(self.page.locator(f"{board} tbody .c0")).to_have_text(names)
        except AssertionError:  # is it the page that doesn't show it, or the server that doesn't tell it?
            for what in ("queries", "stats"):
                print(self.page.request.get(f"{self.url}/api/{what}").text()[:1000])
            print(self.page.locator("#status").text_content(), self.page.locator("#push-word").text_content())
            raise

    def narrow(self) -> None:
        wide = self.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide[0] <= wide[1], f"the page is {wide[0]} wide on a screen of {wide[1]}"

    def leave(self) -> None:
        self.context.close()
        assert self.wrong == []


@pytest.fixture
def person(browser: Any, server: Server) -> Iterator[Person]:
    someone = Person(browser, server.url)
    yield someone
    someone.leave()


def watched(person: Person, name: str, sql: str = SQL) -> None:
    """Start with a query of this name that has no rows yet, whatever happened before."""
    person.open()
    person.page.request.delete(f"{person.url}/api/queries/{name}")
    made = person.page.request.post(f"{person.url}/api/queries", data={"name": name, "sql": sql})
    assert made.status == 201, made.text()
    person.page.goto(f"{person.url}/#/query/{name}")
    person.page.wait_for_selector("#detail:not([hidden])")


def test_a_person_asks_pushes_and_watches_a_rank_move(person: Person) -> None:
    page = person.open().page
    person.ask(SQL, "tallest")
    page.wait_for_selector("#detail-name:has-text('tallest')")
    person.push("name,x\nann,10\nben,20\ncid,30\n")
    person.sees(["cid", "ben", "ann"])
    # a move can be seen for three seconds: written down as it happens, however long it takes to ask
    page.evaluate(
        """() => {
            window.marks = [];
            const board = document.querySelector("#detail-board tbody");
            const both = (move) => [move.textContent, move.getAttribute("aria-label")];
            const note = () => marks.push([...board.querySelectorAll(".move")].map(both));
            new MutationObserver(note).observe(board, {childList: true, subtree: true});
        }"""
    )
    person.push('[{"name": "dot", "x": 25}]')
    person.sees(["cid", "dot", "ben"])
    assert [["", None], ["new", "new"], ["▼1", "down 1"]] in page.evaluate("marks")
    # the chart has a line for each that was there, and the bend of the one that fell
    page.wait_for_selector("#ranks .rank-line >> nth=3", state="attached")
    assert page.locator("#ranks .rank-line.gone").count() == 1
    assert page.locator("#ranks text:text-is('dot')").count() == 1
    # a smaller k holds at once
    page.fill("#change input[name=k]", "2")
    page.click("#change button[type=submit]")
    person.sees(["cid", "dot"])
    page.fill("#change input[name=window]", "nonsense")
    page.click("#change button[type=submit]")
    page.wait_for_selector("#change-word:has-text('nonsense')")
    # and the overview has the same board
    page.click(".back")
    person.sees(["cid", "dot"], board=".card:has-text('tallest')")


def test_after_many_steps_the_page_shows_the_last(person: Person) -> None:
    watched(person, "busy")
    for i in range(80):
        row = [{"name": f"r{i}", "x": (i * 7) % 50}]
        assert person.page.request.post(f"{person.url}/api/streams/s/rows", data=row).ok
    last = sorted(((i * 7) % 50, i) for i in range(30, 80))[::-1][:3]
    person.sees([f"r{i}" for _, i in last])


def test_a_stream_is_not_filled_in_under_somebodys_fingers(person: Person) -> None:
    """The names of the streams may come while somebody types one: "s" once became "ss", a stream of its own."""
    from playwright.sync_api import expect

    watched(person, "typed")
    page = person.page
    waiting: list[Any] = []
    page.route("**/api/streams", lambda route: waiting.append(route))
    page.click("#open-push")
    page.focus("#push-stream")
    page.keyboard.type("rea")
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    while not waiting:
        page.wait_for_timeout(20)
    waiting[0].fulfill(json={"streams": [{"name": "others", "rows": 3, "columns": []}]})
    expect(page.locator("#push-stream")).to_have_attribute("placeholder", "others")
    assert page.input_value("#push-stream") == ""
    page.keyboard.type("s")
    page.fill("#rows", "name,x\nann,1\n")
    page.wait_for_selector("#push:enabled")
    page.click("#push")
    page.wait_for_selector("#push-word[data-kind=good]")
    page.keyboard.press("Escape")
    person.sees(["ann"])


def test_the_picture_and_who_comes_up_next(person: Person) -> None:
    from playwright.sync_api import expect

    watched(person, "pictured")
    page = person.page
    person.push("name,x\n" + "".join(f"r{i},{(i * 37) % 41}\n" for i in range(40)))
    page.wait_for_selector("#legend:has-text('can still enter')")
    page.wait_for_selector("#why:has-text('3 newer rows that are better')")
    page.wait_for_selector("#next time")
    ink = "c => new Set(new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer)).size"
    assert page.eval_on_selector("#picture", ink) > 10, "nothing is drawn"
    first = page.locator("#next li").first
    expect(first).to_have_text(re.compile(r"leaves, r\d+ enters at rank 3 with \d+"))
    page.focus("#ahead")
    page.keyboard.press("End")
    page.wait_for_selector("#ahead-word:has-text('3 of 3 have left')")
    assert page.locator("#next li.done").count() > 0
    page.keyboard.press("Home")
    page.wait_for_selector("#ahead-word:has-text('known already')")


def test_a_broken_query_is_marked_at_its_place(person: Person) -> None:
    from playwright.sync_api import expect

    watched(person, "there")
    page = person.page
    person.push("name,x,height\nann,1,1\n", stream="s")
    page.click("#open-editor")
    page.wait_for_selector("#columns button:text-is('height')")
    page.keyboard.type("SELECT name FROM s ORDER BY heigth DESC LIMIT 3 WINDOW 50 ROWS")
    # who types slowly is told of what was wrong before, too
    expect(page.locator("#sql-back mark")).to_have_text("heigth")
    word = page.wait_for_selector("#sql-word[data-kind=bad]")
    assert "height" in (word.text_content() or ""), "the nearest column is named"
    assert page.locator("#save").is_disabled()
    page.fill("#sql", "SELECT name FROM s ORDER BY height DESC LIMIT 3 WINDOW 50 ROWS")
    page.wait_for_selector("#sql-word[data-kind=good]")
    assert page.locator("#sql-back mark").count() == 0
    page.click("#sql-plan summary")
    page.wait_for_selector("#sql-explain:has-text('algorithm')")
    page.click("#examples button >> nth=0")
    page.wait_for_selector("#sql-word[data-kind=good]")
    assert "ORDER BY" in page.input_value("#sql")
    page.keyboard.press("Escape")
    page.wait_for_selector("#editor:not([open])", state="attached")
    # a name that is taken
    person.page.click("#open-editor")
    page.fill("#sql", SQL)
    page.fill("#query-name", "there")
    page.wait_for_selector("#save:enabled")
    page.click("#save")
    page.wait_for_selector("#sql-word[data-kind=bad]:has-text('there')")


def test_a_refused_query_is_not_called_right_a_moment_later(person: Person) -> None:
    """The editor checks a query that was left in it: never after something else was said of it."""
    watched(person, "taken")
    page = person.page
    page.click("#open-editor")
    page.fill("#sql", SQL)
    page.fill("#query-name", "taken")
    page.wait_for_selector("#save:enabled")
    page.keyboard.press("Escape")
    page.wait_for_selector("#editor:not([open])", state="attached")
    waiting: list[Any] = []
    page.route("**/api/streams", lambda route: waiting.append(route))
    page.click("#open-editor")
    page.click("#save")
    page.wait_for_selector("#sql-word[data-kind=bad]:has-text('taken')")
    while not waiting:
        page.wait_for_timeout(20)
    column = {"name": "late", "type": "double"}
    waiting[0].fulfill(json={"streams": [{"name": "s", "rows": 3, "columns": [column]}]})
    page.wait_for_selector("#columns button:text-is('late')")
    page.wait_for_timeout(1000)
    assert "taken" in (page.text_content("#sql-word[data-kind=bad]") or "")


def test_what_rows_and_queries_say_is_never_markup(person: Person) -> None:
    from playwright.sync_api import TimeoutError, expect

    evil = '<img src="x" onerror="alert(1)"><b>bold'
    watched(person, "plain")
    page = person.page
    person.push(f"name,x\n'{evil.replace(chr(34), '')}',9\n")
    person.sees([f"'{evil.replace(chr(34), '')}'"])
    made = page.request.post(f"{person.url}/api/queries", data={"name": evil, "sql": SQL})
    assert made.status == 201
    person.push(f'[{{"name": "{evil.replace(chr(34), chr(39))}", "x": 10}}]')
    person.push('[{"name": "<script>alert(2)</script>", "x": "<i>no number</i>"}]', end="bad")
    page.click(".back")
    page.wait_for_selector(".card h2 a >> text=<img src")
    page.click("#open-rejects")
    page.wait_for_selector(".reject:has-text('<i>no number</i>')")
    assert page.locator("img, main b:text-is('bold'), .reject i, body script").count() == 0
    page.keyboard.press("Escape")
    # a board that gets its first lines moves what is below it, also between a press on a link and its end
    until = time.monotonic() + PATIENCE / 1000
    while not page.locator("#detail-name:has-text('<img src')").is_visible():
        assert time.monotonic() < until
        with contextlib.suppress(TimeoutError):
            page.click(".card h2 a >> text=<img src", timeout=3000)
            page.wait_for_selector("#detail-name:has-text('<img src')", timeout=10_000)
    page.wait_for_selector("#next li")
    first = "() => { const drop = document.getElementById('drop'); drop.click(); return drop.textContent; }"
    assert page.evaluate(first) == "Drop it for good"
    # that is asked for four seconds, and then anew
    while page.locator("#detail").is_visible():
        with contextlib.suppress(TimeoutError):
            with page.expect_request(lambda asked: asked.method == "DELETE", timeout=2000):
                page.click("#drop", timeout=2000)
            break
    page.wait_for_selector("#overview:not([hidden])")
    expect(page.locator(".card h2 a >> text=<img src")).to_have_count(0)


def test_great_numbers_are_told_to_the_last_digit(browser: Any) -> None:
    """A number of which digits are missing is another one: 9.007e+15 is no id, and 10,893,6… no sum."""
    from playwright.sync_api import expect

    with contextlib.ExitStack() as ending:
        server = Server()  # a stream of its own kind
        ending.callback(server.stop)
        for width in (390, 1280):
            person = Person(browser, server.url, viewport={"width": width, "height": 844})
            watched(person, "great", "SELECT id, no FROM great ORDER BY x DESC LIMIT 3 WINDOW 2 ROWS")
            rows = "id,no,x\n1700000000000001,7,-110893672\n9007199254740993,8,9710893672\n"
            person.push(rows, "great")
            board = person.page.locator("#detail-board tbody")
            expect(board.locator(".score span")).to_have_text(["9,710,893,672", "-110,893,672"])
            expect(board.locator(".c0")).to_have_text(["9007199254740993", "1,700,000,000,000,001"])
            cut = board.locator(".score").evaluate_all("all => all.some(c => c.scrollWidth > c.clientWidth)")
            assert not cut
            person.narrow()
            person.leave()


def test_a_stream_says_where_it_stands_and_what_is_off(browser: Any) -> None:
    from playwright.sync_api import expect

    server = Server()
    person = Person(browser, server.url)
    page, post = person.page, person.page.request.post
    assert page.request.put(f"{server.url}/api/streams/cars", data={"time": "ts"}).ok
    assert page.request.put(f"{server.url}/api/streams/plain", data={}).ok
    watched(person, "fastest", "SELECT car, v FROM cars ORDER BY v DESC LIMIT 3 WINDOW 1 HOUR")
    person.open()

    def push(rows: Any, stream: str = "cars") -> None:
        assert post(f"{server.url}/api/streams/{stream}/rows", data=rows).ok

    cars = page.locator(".stream[data-stream=cars]")
    push(
        [{"ts": time.time() - 7500, "car": "ann", "v": 3.5}, {"ts": time.time() - 7300, "car": "ben", "v": 1}]
    )
    expect(cars.locator(".stream-time")).to_have_text(re.compile(r"time .*, 2 h behind the clock"))
    expect(cars.locator(".stream-rows")).to_have_text("2 rows in the last minute")
    expect(cars).to_have_attribute("data-state", "fine")
    push([{"x": 1}], "plain")
    expect(page.locator(".stream[data-stream=plain] .stream-time")).to_have_text("")
    push([{"ts": time.time() - 7200, "car": "<b>", "v": "fast"}] * 4)
    expect(cars).to_have_attribute("data-state", "off")
    expect(cars.locator(".stream-rejects")).to_have_text("4 rejected as type")
    expect(cars.locator(".stream-words")).to_have_text(
        re.compile("^4 of 6 rows of the last minute were rejected")
    )
    expect(cars.locator(".stream-examples li:not(.stream-notice)")).to_have_text(
        re.compile("column \"v\" is .*'fast' is not.*<b>")
    )
    expect(page.locator(".stream").first).to_have_attribute("data-stream", "cars")  # what is off comes first
    push([{"x": 1, "X": 2}], "plain")
    plain = page.locator(".stream[data-stream=plain]")
    expect(plain).to_have_attribute("data-state", "odd")
    expect(plain.locator(".stream-notice")).to_have_text(re.compile("^unknown column X: .*1 row"))
    person.narrow()
    person.leave()
    server.stop()


def test_the_card_of_a_pair_shows_both_rows(browser: Any, server: Server) -> None:
    from playwright.sync_api import expect

    person = Person(browser, server.url)
    sql = (
        "SELECT a.id, a.x, a.y, b.id, b.x, b.y FROM dots a, dots b WHERE a.id < b.id "
        "ORDER BY dist(a.x, a.y, b.x, b.y) LIMIT 1 WINDOW 9 ROWS"
    )
    assert person.page.request.put(f"{server.url}/api/streams/dots", data={}).ok
    watched(person, "closest", sql)
    person.push("id,x,y\nann,1,2\nben,1,4\ncid,9,9\n", "dots")
    for board in ("#detail-board", ".card:has-text('closest')"):
        cells = person.page.locator(f"{board} tbody tr td:is(.c0, .c1, .c2)")
        expect(cells).to_have_text(["annben", "11", "24"])
        expect(person.page.locator(f"{board} thead th:is(.c0, .c1, .c2)")).to_have_text(
            ["a.idb.id", "a.xb.x", "a.yb.y"]
        )
        person.page.goto(person.url)
    person.page.request.delete(f"{person.url}/api/queries/closest")
    person.leave()


CUT = """() => [...document.querySelectorAll('.card :is(th:not(.move), tbody td)')]
    .filter((cell) => cell.scrollWidth > cell.clientWidth).map((cell) => cell.textContent)"""


def test_a_text_is_cut_only_where_there_is_no_room(browser: Any) -> None:
    server = Server()
    person = Person(browser, server.url)
    watched(person, "places", "SELECT place, kind, n FROM s ORDER BY x DESC LIMIT 3 WINDOW 50 ROWS")
    from playwright.sync_api import expect

    person.open()
    expect(person.page.locator(".card .more")).to_have_text("No rows in the window yet.")
    assert person.page.evaluate(CUT) == [], "nor is a heading, before the first row"
    person.push("place,kind,n,x\nLONDON HEATHROW TERMINAL 5,a,1,3\nROME,b,2,2\n")
    person.open()
    person.sees(["LONDON HEATHROW TERMINAL 5", "ROME"], board=".card")
    assert person.page.evaluate(CUT) == []
    person.push("place,kind,n,x\n" + f"{'long ' * 30},{'wide ' * 3},1234567890,9\n")
    person.sees([("long " * 30).strip(), "LONDON HEATHROW TERMINAL 5", "ROME"], board=".card")
    cut = set(person.page.evaluate(CUT))
    assert "long " * 30 in cut and cut <= {"long " * 30, "LONDON HEATHROW TERMINAL 5"}, "numbers are whole"
    person.narrow()
    person.page.set_viewport_size({"width": 700, "height": 800})
    person.page.wait_for_timeout(600)
    assert person.page.evaluate(CUT)[0].startswith("long")
    person.narrow()
    person.leave()
    server.stop()


def test_on_a_phone(browser: Any, server: Server) -> None:
    person = Person(browser, server.url, viewport={"width": 390, "height": 844}, has_touch=True)
    watched(person, "a-rather-long-name-for-a-query-that-must-be-broken-somewhere")
    long = "x" * 60
    person.push(f"name,x\n{long},123456789\nben,2\n")
    page = person.page
    page.wait_for_selector("#detail-board tbody tr:nth-child(2)")
    page.wait_for_selector("#why:has-text('rows')")
    person.narrow()
    page.click("#plan summary")
    page.wait_for_selector("#explain:has-text('algorithm')")
    person.narrow()
    page.click("#open-editor")
    page.fill("#sql", f"SELECT {long} FROM s")
    page.wait_for_selector("#sql-word[data-kind=bad]")
    person.narrow()
    box = page.locator("#editor .sheet").bounding_box()
    assert box and box["x"] >= 0 and box["x"] + box["width"] <= 390
    page.keyboard.press("Escape")
    page.click(".back")
    page.wait_for_selector(".card")
    person.narrow()
    person.leave()


def test_by_keyboard_alone(person: Person) -> None:
    watched(person, "keys")
    page = person.open().page
    page.wait_for_selector(".card")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the leaderboards"
    page.keyboard.press("Enter")
    order = []
    for _ in range(40):
        page.keyboard.press("Tab")
        order.append(page.evaluate("document.activeElement.textContent"))
        if order[-1] == "keys":
            break
    assert order[-1] == "keys"
    seen = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert seen == "solid", "the focus can't be seen"
    page.keyboard.press("Enter")
    page.wait_for_selector("#detail-name:has-text('keys')")
    page.focus("#open-editor")
    page.keyboard.press("Enter")
    page.wait_for_selector("#editor[open]")
    assert page.evaluate("document.activeElement.id") == "sql"
    page.keyboard.type(SQL)
    page.wait_for_selector("#save:enabled")
    page.keyboard.press("Escape")
    page.wait_for_selector("#editor:not([open])", state="attached")
    assert page.evaluate("document.activeElement.id") == "open-editor"


def test_light_and_dark(browser: Any, server: Server) -> None:
    person = Person(browser, server.url, color_scheme="dark", reduced_motion="reduce").open()
    page = person.page
    shade = "getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/g).map(Number)[0]"
    assert page.evaluate(shade) < 60
    for name, dark in (("light", False), ("dark", True), ("system", True)):
        page.click("#theme")
        assert page.locator("#theme").get_attribute("aria-label") == f"Theme: {name}"
        assert (page.evaluate(shade) < 60) == dark
    page.emulate_media(color_scheme="light")
    assert page.evaluate(shade) > 200
    # who wants no motion is shown none
    watched(person, "still")
    person.push("name,x\nann,1\nben,2\n")
    person.sees(["ben", "ann"])
    person.push("name,x\ncid,3\n")
    person.sees(["cid", "ben", "ann"])
    assert page.evaluate("document.getAnimations().length") == 0
    person.leave()


def test_it_connects_again_by_itself_and_says_so(person: Person) -> None:
    sockets: list[Any] = []

    def through(socket: Any) -> None:
        sockets.append(socket)
        socket.connect_to_server()

    person.page.route_web_socket("**/api/live", through)
    page = person.open().page
    page.evaluate(
        """() => {
            window.words = [];
            const text = document.getElementById("status-text");
            new MutationObserver(() => words.push(text.textContent)).observe(text, {childList: true, subtree: true});
        }"""
    )
    sockets[0].close(code=1001)
    page.wait_for_function("window.words.some(word => word.startsWith('Disconnected, trying again'))")
    page.wait_for_selector("#status[data-state=live]")
    assert len(sockets) == 2
    assert not page.evaluate("document.body.classList.contains('stale')")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    tokens = tmp_path_factory.mktemp("guarded") / "tokens"
    tokens.write_text("admin the-right-one-of-all\nread only-for-looking-at\n", encoding="utf-8")
    tokens.chmod(0o600)
    running = Server("--tokens", str(tokens))
    yield running
    running.stop()


def test_a_late_refusal_does_not_take_a_newer_token_away(browser: Any, guarded: Server) -> None:
    """Of two questions without a token one may be answered when the person has given one already."""
    person = Person(browser, guarded.url)
    page = person.page
    late: list[Any] = []

    def settings(route: Any) -> None:
        if late:
            route.continue_()
        else:
            late.append(route)

    page.route("**/api/settings", settings)
    page.goto(guarded.url)
    page.wait_for_selector("#token[open]")
    page.fill("#token-text", "the-right-one-of-all")
    page.keyboard.press("Enter")
    page.wait_for_selector("#status[data-state=live]")
    with page.expect_response("**/api/settings"):
        late[0].fulfill(
            status=401, json={"error": {"code": "unauthorized", "message": "This needs a token."}}
        )
    page.wait_for_timeout(1000)
    assert page.locator("#token[open]").count() == 0
    page.wait_for_selector("#status[data-state=live]")
    person.wrong = [words for words in person.wrong if "WebSocket connection" not in words]
    person.leave()


def test_a_token_and_sample_data_in_one_click(browser: Any, guarded: Server) -> None:
    from playwright.sync_api import expect

    person = Person(browser, guarded.url)
    page = person.page
    page.goto(guarded.url)
    for token in ("a wrong one", "only-for-looking-at"):
        page.wait_for_selector("#token[open]")
        page.fill("#token-text", token)
        page.keyboard.press("Enter")
        if token == "a wrong one":
            page.wait_for_selector("#token-word:not(:empty)")
    page.wait_for_selector("#status[data-state=live]")
    for button in ("#open-editor", "#open-push"):  # the role may come after the first state
        expect(page.locator(button)).to_be_disabled()
    page.click("#forget-token")
    page.wait_for_selector("#token[open]")
    page.fill("#token-text", "the-right-one-of-all")
    page.keyboard.press("Enter")
    page.wait_for_selector("#status[data-state=live]")
    assert page.locator("#open-editor").is_enabled()
    assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
    page.wait_for_selector("text=Nothing is watched yet")
    page.click("#load-sample")
    page.wait_for_selector(".card tbody tr:nth-child(10)")
    assert page.locator(".card h2").all_text_contents() == ["fastest flows", "busiest services"]
    page.wait_for_selector("#latency:not(:text-is('–'))")
    page.click("#stop-sample")
    page.wait_for_selector("#stop-sample", state="hidden")
    # the browser itself says that a socket was refused
    person.wrong = [words for words in person.wrong if "WebSocket connection" not in words]
    person.leave()
