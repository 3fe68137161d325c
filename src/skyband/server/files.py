"""Pages and their parts: the dashboard's, and Swagger UI's for the OpenAPI page. Nothing comes from elsewhere."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from skyband.server.problems import Problem

PAGES = Path(__file__).parent / "pages"
DOCS = Path(__file__).parent / "docs"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
}
_SWAGGER = ("swagger-ui.css", "swagger-ui-bundle.js", "favicon-32x32.png")


def page(request: Request, name: str) -> Response:
    return _file(request, PAGES, name)


def docs(request: Request, name: str) -> Response:
    if name in _SWAGGER:
        from swagger_ui_bundle import swagger_ui_path

        return _file(request, Path(str(swagger_ui_path)), name)
    return _file(request, DOCS, name)


def _file(request: Request, folder: Path, name: str) -> Response:
    """Return a file of a folder by its plain name; unchanged ones need not be sent again."""
    kind = _TYPES.get(Path(name).suffix)
    if kind is None or name.startswith(".") or Path(name).name != name:
        raise Problem("not_found", "There is no such page: see /docs for what there is.")
    try:
        path = folder / name
        data, tag = _read(path, path.stat().st_mtime_ns)
    except (OSError, ValueError):
        raise Problem("not_found", "There is no such page: see /docs for what there is.") from None
    headers = {"etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(data, headers=headers, media_type=kind)


@lru_cache(maxsize=64)
def _read(path: Path, changed: int) -> tuple[bytes, str]:
    data = path.read_bytes()
    return data, f'"{hashlib.sha256(data).hexdigest()[:24]}"'
