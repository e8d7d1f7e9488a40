"""Style sheet, scripts and icon of the pages, under addresses that change with their content."""

import asyncio
import gzip
import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping
from functools import cache, lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from mosaico.core.web.compression import ENCODED, MAX_FILES, accepts_gzip, compress_asset

FOLDER = Path(__file__).parent / "static"
URL = "/static"
HASH_CHARS = 12
FOREVER = "public, max-age=31536000, immutable"
# Only a wheel has this file (`hatch_build.py`).
WHEEL_TEMPLATES: Final = FOLDER.with_name("templates.bz2")
# Of the files of others, such as those of Swagger UI.
COMPRESSIBLE: Final = frozenset({".css", ".js", ".map", ".svg"})
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
    """Static files, compressed and cached by browsers without expiry when the URL contains their hash.

    Without the hash, a file is sent as it was written.
    """

    async def get_response(self, path: str, scope: Scope) -> Response:
        source = await super().get_response(path, scope)
        if not scope["query_string"].startswith(b"v="):
            source.headers["Cache-Control"] = "no-cache"
            return source
        response = source
        if source.status_code == HTTPStatus.OK:
            content, encoded = read_asset(path), {"Vary": ENCODED["Vary"]}
            if accepts_gzip(Headers(scope=scope)):
                content, encoded = compress_asset(content), ENCODED
            response = Response(content, media_type=source.media_type, headers=encoded)
        response.headers["Cache-Control"] = FOREVER
        return response


class CompressedStaticFiles(StaticFiles):
    """The files of a folder as they are stored, compressed for clients that accept it."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        if Path(path).suffix not in COMPRESSIBLE:
            return response
        response.headers["Vary"] = ENCODED["Vary"]
        headers = Headers(scope=scope)
        if (
            not isinstance(response, FileResponse)
            or "range" in headers
            or not accepts_gzip(headers)
        ):
            return response
        # In a thread: the script of Swagger UI has 1.5 MB.
        content = await asyncio.to_thread(_compress_file, str(response.path))
        # A weak tag: the bytes are others, and mean the same.
        tags = {
            "ETag": f"W/{response.headers['etag']}",
            "Last-Modified": response.headers["last-modified"],
        }
        return Response(content, media_type=response.media_type, headers={**tags, **ENCODED})


@lru_cache(maxsize=MAX_FILES)
def _compress_file(path: str) -> bytes:
    return gzip.compress(Path(path).read_bytes(), mtime=0)
