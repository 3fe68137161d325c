"""`skyband bench`: the published experiments, by name."""

from __future__ import annotations

from skyband.errors import SkybandError


def run_experiment(name: str | None) -> None:
    """Run one, or list them all."""
    try:
        from skyband import bench
    except ImportError:
        raise SkybandError("This version has no experiments yet: they come with a later one.") from None
    if name is None:
        for each, about in bench.names().items():
            print(f"{each:16} {about}")
        return
    bench.run(name)
