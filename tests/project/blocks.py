"""Run the code blocks of a page, in order, as a reader would who types them one after the other.

    python tests/project/blocks.py docs/python.md

All blocks of a page share one namespace and one empty folder. What is done with a block depends on its language:

    python     it is run; a `text` block right after it is what it must print
    console    lines that begin with `$ ` are run, the lines after each are what it must print; a line of
               nothing but … stands for any number of lines, and … in a line for any text
    sql        each statement must be understood
    toml, csv  a first line `# file: NAME` says what the reader calls the file: it is written there

Other languages (`sh`, `text`) are for the eye only. A first mismatch ends the run with both texts.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ON_SPARK = re.compile(r"skyband\.spark|pyspark|^\$ skyband (run|demo|verify)\b", re.MULTILINE)


@dataclass
class Block:
    language: str
    text: str
    line: int
    follows: bool  # nothing but white space between it and the block before


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    end = 0
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield Block(match.group(1), match.group(2), line, not text[end : match.start()].strip())
        end = match.end()


def needs_spark(page: Path) -> bool:
    return any(
        ON_SPARK.search(block.text) for block in blocks(page) if block.language in ("python", "console")
    )


def compare(page: Path, block: Block, expected: str, printed: str) -> None:
    pattern = "".join(_pattern(line) for line in expected.strip("\n").splitlines())
    shown = "".join(f"{line.rstrip()}\n" for line in printed.splitlines()).strip("\n") + "\n"
    if not re.fullmatch(pattern, shown):
        sys.exit(f"{page}:{block.line}: the page says\n{expected}\nbut this was printed:\n{shown}")


def _pattern(line: str) -> str:
    if line.strip() == "…":
        return "(?:.*\n)*?"
    return ".*".join(re.escape(part) for part in line.rstrip().split("…")) + "\n"


def run_console(page: Path, block: Block) -> None:
    for part in re.split(r"^(?=\$ )", block.text, flags=re.MULTILINE):
        if not part.startswith("$ "):
            continue
        # A backslash at the end of a line goes on in the next one, as in any shell.
        command = re.match(r"\$ ((?:.*\\\n)*.*)\n?", part)
        assert command is not None
        done = subprocess.run(["bash", "-c", command.group(1)], capture_output=True, text=True, check=False)
        expected = part[command.end() :]
        # An error's sentence goes to standard error; a page that shows one means that.
        printed = done.stdout if done.returncode == 0 else done.stdout + done.stderr
        if done.returncode not in (0, 1, 2) or (done.returncode and not expected.strip()):
            sys.exit(f"{page}:{block.line}: {command.group(1)} ended with {done.returncode}:\n{done.stderr}")
        if expected.strip():
            compare(page, block, expected, printed)


def run_python(page: Path, block: Block, names: dict[str, object]) -> str:
    # Blank lines in front, so that a traceback names the page's own line.
    code = compile("\n" * block.line + block.text, str(page), "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    return printed.getvalue()


def run(page: Path) -> int:
    names: dict[str, object] = {"__name__": "__main__"}
    printed: str | None = None
    count = 0
    for block in blocks(page):
        if block.language == "text" and block.follows and printed is not None:
            compare(page, block, block.text, printed)
        printed = None
        if block.language == "python":
            printed = run_python(page, block, names)
            count += 1
        elif block.language == "console":
            run_console(page, block)
            count += 1
        elif block.language == "sql":
            from skyband.query.sql.parser import parse

            for statement in filter(str.strip, re.split(r";|\n\s*\n", block.text)):
                parse(statement)
            count += 1
        elif name := re.match(r"# file: (\S+)\n", block.text):
            Path(name.group(1)).write_text(block.text[name.end() :], encoding="utf-8")
    return count


def main() -> None:
    page = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("src").symlink_to(Path(__file__).resolve().parents[2] / "src")  # the reader sits in a clone
        Path("bin").mkdir()
        command = Path("bin/skyband")
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m skyband.cli "$@"\n')
        command.chmod(0o755)
        # As in an activated venv: `python3` is this one, also for Spark's workers.
        paths = [f"{folder}/bin", str(Path(sys.executable).parent), os.environ["PATH"]]
        os.environ["PATH"] = os.pathsep.join(paths)
        # Pages show what a pipe gets: no colours, and tables as wide as the page.
        os.environ.update(NO_COLOR="1", COLUMNS="110")
        count = run(page)
        os.chdir(page.parent)
    print(f"{count} blocks")


if __name__ == "__main__":
    main()
