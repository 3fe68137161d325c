"""`skyband serve`: from the command line to the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from skyband.server.settings import Settings
from skyband.terminal.quick import without_pandas


def serve(pipeline: Path | None, options: dict[str, Any]) -> None:
    """Serve until Ctrl-C."""
    settings = Settings(**options)
    if pipeline is None:
        without_pandas()
    from skyband.server.run import serve

    serve(settings, None if pipeline is None else str(pipeline))
