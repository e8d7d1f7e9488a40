"""Style sheet, scripts and icon of the pages, under addresses that change with their content."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Final

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOLDER = Path(__file__).parent / "static"
URL = "/static"
HASH_CHARS = 12
FOREVER = "public, max-age=31536000, immutable"
# Only a wheel has this file (`hatch_build.py`).
WHEEL_TEMPLATES: Final = FOLDER.with_name("templates.json")
MINIFIER: Final = Path(__file__).with_name("minified_assets.py")


@cache
def read_asset(name: str) -> bytes:
    """A static file as browsers get it: a style sheet or script is minified."""
    minified = _minified_assets().get(name)
    return minified.encode() if minified is not None else (FOLDER / name).read_bytes()


@cache
def _minified_assets() -> Mapping[str, str]:
    """The minified files of a source tree, by name; empty in a wheel, whose files are minified already."""
    if WHEEL_TEMPLATES.exists():
        return {}
    command = [sys.executable, "-I", str(MINIFIER), str(FOLDER)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - our own script
    assets: dict[str, str] = json.loads(output)
    return assets


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
