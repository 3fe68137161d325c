"""One table makes the command line, the docs and the limits."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import typer.main

from skyband.cli import app
from skyband.core.errors import InputError
from skyband.server.openapi import PAGES, PATHS
from skyband.server.routes import ENDPOINTS
from skyband.server.settings import Settings, flag

SRC = str(Path(__file__).resolve().parents[2] / "src")
DOCS = Path(__file__).resolve().parents[2] / "docs"


def table_of_options() -> str:
    """The table of docs/server.md."""
    lines = ["| option | default | what it is |", "|---|---|---|"]
    for option in fields(Settings):
        default: object = option.default
        if isinstance(default, int) and default >= 10_000:
            default = f"{default:,}"
        name = f"{flag(option)} {option.metadata['metavar']}".strip()
        shown = "" if default is None or default is False else default
        lines.append(f"| `{name}` | {shown} | {option.metadata['help']} |")
    return "\n".join(lines)


def test_the_page_has_the_table() -> None:
    assert table_of_options() in (DOCS / "server.md").read_text(encoding="utf-8")


def test_the_command_line_has_each_option() -> None:
    command = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    options = {parameter.name: parameter for parameter in command.params}
    assert list(options) == ["pipeline", *(option.name for option in fields(Settings))]
    for option in fields(Settings):
        assert options[option.name].help == option.metadata["help"]
        assert options[option.name].opts == [flag(option)]
        assert options[option.name].default == option.default


def test_wrong_values() -> None:
    for wrong, word in [
        ({"max_k": 0}, "--max-k"), ({"max_body": 10}, "--max-body"), ({"port": -1}, "--port"),
        ({"port": 65536}, "--port"), ({"certfile": "x"}, "--keyfile"), ({"max_rate": 1.5}, "--max-rate"),
    ]:  # fmt: skip
        with pytest.raises(InputError, match=word):
            Settings(**wrong)  # type: ignore[arg-type]


def test_no_secret_and_no_path_is_shown() -> None:
    assert not {"tokens", "data", "certfile", "keyfile", "host"} & set(Settings().limits())


def test_every_address_is_described() -> None:
    assert {(each.method, each.path) for each in ENDPOINTS if each.path not in PAGES} == set(PATHS)


def test_nothing_of_the_server_is_loaded_before_it_is_started() -> None:
    heavy = "{'starlette', 'uvicorn', 'websockets', 'prometheus_client', 'pyarrow', 'numpy'}"
    code = f"import sys, skyband, skyband.cli; print({heavy} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": SRC}
    )
    assert done.stdout == "set()\n", done.stderr
