"""`skyband bench`: the published experiments, by name."""

from __future__ import annotations

from pathlib import Path

import typer


def run_experiment(
    name: str | None,
    scale: str,
    only: list[str],
    output: Path | None,
    charts: bool,
    data: Path | None = None,
) -> None:
    """Run one, or list them all."""
    from skyband import bench

    names = bench.names()
    if name is None:
        for each, about in names.items():
            print(f"{each:16} {about}")
        return
    if name not in names:
        raise typer.BadParameter(f"there is no experiment {name!r}; there are {', '.join(names)}")
    plain = bench.Settings()
    bench.run(name, bench.Settings(scale, tuple(only), output or plain.output, charts, data))
