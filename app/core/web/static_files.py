"""Style sheet, scripts and icon of the pages, under addresses that change with their content."""

import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Final

import rcssmin
import rjsmin
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOLDER = Path(__file__).parent / "static"
URL = "/static"
HASH_CHARS = 12
FOREVER = "public, max-age=31536000, immutable"

_MINIFIERS: Final[Mapping[str, Callable[[str], str]]] = {
    ".css": rcssmin.cssmin,
    ".js": rjsmin.jsmin,
}


@cache
def read_asset(name: str) -> bytes:
    """A static file as browsers get it: a style sheet or script has no comments and spaces."""
    path = FOLDER / name
    minify = _MINIFIERS.get(path.suffix)
    return minify(path.read_text()).encode() if minify else path.read_bytes()


@cache
def asset_url(name: str) -> str:
    """The address of a static file: its path with the hash of its content."""
    digest = hashlib.sha256(read_asset(name)).hexdigest()
    return f"{URL}/{name}?v={digest[:HASH_CHARS]}"


class HashedStaticFiles(StaticFiles):
    """Static files, cached by browsers without expiry when the URL contains their hash.

    Without the hash, a file is sent as it was written.
    """

    async def get_response(self, path: str, scope: Scope) -> Response:
        source = await super().get_response(path, scope)
        if not scope["query_string"].startswith(b"v="):
            source.headers["Cache-Control"] = "no-cache"
            return source
        response = source
        if source.status_code == HTTPStatus.OK:
            response = Response(read_asset(path), media_type=source.media_type)
        response.headers["Cache-Control"] = FOREVER
        return response
