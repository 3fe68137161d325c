"""How an experiment is run: its scale, its parts, and the folder for what it writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skyband.core.errors import InputError


@dataclass(frozen=True)
class Settings:
    """The options of one run."""

    scale: str = "quick"
    only: tuple[str, ...] = ()  # parts of the experiment; empty: all
    output: Path = Path("skyband-bench")  # the folder for tables, charts and the page
    charts: bool = True
    data: Path | None = None  # a file of the user's to measure on, where the experiment reads one


def parts_of(settings: Settings, known: tuple[str, ...]) -> tuple[str, ...]:
    """Return the parts that were asked for: all, if none is named."""
    for part in settings.only:
        if part not in known:
            raise InputError(f'There is no part "{part}" in this experiment; there are {", ".join(known)}.')
    return settings.only or known
