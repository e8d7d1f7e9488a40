"""Style sheets, scripts and icon of the pages, under addresses that change with their content."""

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOLDER = Path(__file__).parent / "static"
URL = "/static"
DIGEST_CHARS = 12
FOREVER = "public, max-age=31536000, immutable"
# In the order of the cascade: a rule may change those of the sheets before.
STYLE_SHEETS: Final = (
    "base.css",
    "forms.css",
    "frame.css",
    "content.css",
    "overview.css",
    "charts.css",
    "setup.css",
    "changes.css",
    "answers.css",
)


@cache
def static_digest() -> str:
    """The hash of all static files: the modules of the script import each other, and are of one version."""
    digest = hashlib.sha256()
    for file in sorted(FOLDER.iterdir()):
        digest.update(b"%b %d " % (file.name.encode(), file.stat().st_size) + file.read_bytes())
    return digest.hexdigest()[:DIGEST_CHARS]


def asset_url(name: str) -> str:
    """The address of a static file: a folder with the hash, and its name."""
    return f"{URL}/{static_digest()}/{name}"


@cache
def read_style_sheets() -> str:
    """All rules of the pages, for a page that is one file."""
    return "\n".join((FOLDER / name).read_text("utf-8") for name in STYLE_SHEETS)


class HashedStaticFiles(StaticFiles):
    """Static files, which browsers keep without expiry below their hash.

    Below the hash of another version, such as that of a process that is being replaced, and without one, they are
    asked for again each time.
    """

    async def get_response(self, path: str, scope: Scope) -> Response:
        folder, _, name = path.rpartition("/")
        response = await super().get_response(name if len(folder) == DIGEST_CHARS else path, scope)
        response.headers["Cache-Control"] = FOREVER if folder == static_digest() else "no-cache"
        return response
