"""Compressed responses for clients that accept gzip: static files, and pages without secrets.

The length of a compressed page tells whether a text of an attacker is elsewhere on it (BREACH): a page with a secret is
sent as it is, like answers of the API, downloads and streams.
"""

import gzip
from functools import lru_cache

from starlette.datastructures import Headers

ENCODED = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
# A page of 50 kB takes less than a millisecond; a higher level saves 3 % of its bytes.
PAGE_LEVEL = 5
MAX_FILES = 32


def accepts_gzip(headers: Headers) -> bool:
    """Return whether a client names gzip among what it accepts, with a weight above zero."""
    for coding in headers.get("accept-encoding", "").lower().split(","):
        name, _, weight = coding.partition(";")
        if name.strip() == "gzip":
            return weight.replace(" ", "").rstrip(".0") != "q="
    return False


def compress_page(html: bytes) -> bytes:
    """A page, compressed for one response."""
    return gzip.compress(html, PAGE_LEVEL, mtime=0)


@lru_cache(maxsize=MAX_FILES)
def compress_asset(content: bytes) -> bytes:
    """The content of a static file, compressed once and as small as possible."""
    return gzip.compress(content, mtime=0)
