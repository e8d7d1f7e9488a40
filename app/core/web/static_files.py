"""Style sheet, scripts and icon of the pages, under addresses that change with their content."""

import hashlib
from functools import cache
from pathlib import Path

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOLDER = Path(__file__).parent / "static"
URL = "/static"
HASH_CHARS = 12
FOREVER = "public, max-age=31536000, immutable"


@cache
def asset_url(name: str) -> str:
    """The address of a static file: its path with the hash of its content."""
    digest = hashlib.sha256((FOLDER / name).read_bytes()).hexdigest()
    return f"{URL}/{name}?v={digest[:HASH_CHARS]}"


class HashedStaticFiles(StaticFiles):
    """Static files that a browser keeps forever when it asks for them by their hash."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        has_hash = scope["query_string"].startswith(b"v=")
        response.headers["Cache-Control"] = FOREVER if has_hash else "no-cache"
        return response
