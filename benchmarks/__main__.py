"""`python -m benchmarks NAME …`: run these experiments; `all` runs every one, none lists them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import names, run
from benchmarks.harness.settings import Settings
from skyband.cli import guarded, main

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
DEFAULT = Settings()


class Scale(StrEnum):
    tiny = "tiny"
    quick = "quick"
    full = "full"


@app.command()
@guarded
def benchmarks(
    chosen: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...", help="Which ones; all: every one; none: list them.", show_default=False
        ),
    ] = None,
    scale: Annotated[
        Scale, typer.Option(help="quick takes minutes; full has the sizes that papers and goals name.")
    ] = Scale.quick,
    full: Annotated[bool, typer.Option("--full", help="The same as --scale full.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="The same as --scale quick.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help="Only this part of it; may be repeated.", show_default=False),
    ] = None,
    output: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where tables, charts and the page go.")
    ] = DEFAULT.output,
    charts: Annotated[
        bool, typer.Option("--charts/--no-charts", help="Draw charts (needs matplotlib).")
    ] = True,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Measure on this file where it can (pripuzic).", show_default=False
        ),
    ] = None,
) -> None:
    """Run published experiments and print their tables."""
    known = names()
    for name in chosen or []:
        if name not in known and name != "all":
            raise typer.BadParameter(f"there is no experiment {name!r}; there are {', '.join(known)} and all")
    if not chosen:
        for name, about in known.items():
            print(f"{name:16} {about}")
    wanted = known if chosen and "all" in chosen else chosen or []
    settings = Settings(
        "full" if full else "quick" if quick else scale.value, tuple(only or ()), output, charts, data
    )
    for name in wanted:
        if len(wanted) > 1:
            print(f"== {name}: {known[name]}", flush=True)
        run(name, settings)
        if len(wanted) > 1:
            print(flush=True)


if __name__ == "__main__":
    main(app, "python -m benchmarks")
