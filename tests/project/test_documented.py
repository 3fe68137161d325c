"""What a user can name is on a page: commands and their options, algorithms, functions, pipeline keys."""

from __future__ import annotations

from pathlib import Path

import pytest

import skyband
from skyband.algorithms import CARDS

DOCS = Path(__file__).resolve().parents[2] / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def commands() -> dict[str, list[str]]:
    """Each command with the options that its help shows."""
    import typer.main

    from skyband.cli import app

    return {
        name: [
            flag
            for parameter in command.params
            if parameter.param_type_name == "option" and not getattr(parameter, "hidden", False)
            for flag in parameter.opts
            if flag.startswith("--") and flag != "--help"
        ]
        for name, command in typer.main.get_command(app).commands.items()
        if not command.hidden
    }


@pytest.mark.parametrize("name", commands())
def test_every_command_has_its_section(name: str) -> None:
    text = page("cli.md")
    assert f"\n## skyband {name}\n" in text
    section = text.split(f"\n## skyband {name}\n")[1].split("\n## ")[0]
    for flag in commands()[name]:
        assert f"`{flag}" in section, f"{flag} of skyband {name}"


@pytest.mark.parametrize("name", CARDS)
def test_every_algorithm_has_its_card(name: str) -> None:
    text = page(f"algorithms/{name}.md")
    assert text.startswith(f"# {name}: ")
    for part in [
        "Problem",
        "Idea",
        "What is kept",
        "Cost",
        "Wrong choice when",
        "Exact",
        "Windows",
        "Options",
        "From",
    ]:
        assert f"**{part}" in text, part
    for option in CARDS[name].options:
        assert f"`{option}`" in text
    assert f"(algorithms/{name}.md)" in page("index.md")


@pytest.mark.parametrize(
    "name", [name for name in skyband.__all__ if not name.startswith("_") and name != "Watch"]
)
def test_every_public_name_is_on_the_python_page(name: str) -> None:
    assert f"sb.{name}" in page("python.md")


def test_every_function_of_the_sql_is_on_its_page() -> None:
    for name in ["abs", "sign", "sqrt", "exp", "ln", "pow", "least", "greatest", "dist"]:
        assert f"`{name}(" in page("sql.md")


def test_every_pipeline_key_is_on_the_spark_page() -> None:
    text = page("spark.md")
    for key in [
        "format",
        "path",
        "time",
        "max_files",
        "name",
        "sql",
        "master",
        "checkpoint",
        "placement",
        "trigger",
    ]:
        assert f"`{key}`" in text, key
