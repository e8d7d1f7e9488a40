"""Syntax of the URLs that people enter and this service calls."""

from urllib.parse import urlsplit

_REFUSED_CHARACTERS = ' \\<>"^`{|}'


def find_url_flaw(url: str) -> str | None:
    """Why a text is not an absolute http or https URL without credentials; None if it is.

    Stricter than parsers, which drop line breaks, repair missing slashes and accept any port.
    """
    if not (url.isprintable() and url.isascii()) or any(
        mark in url for mark in _REFUSED_CHARACTERS
    ):
        return "contains a character that is not allowed in a URL"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "is not a URL: its host or port is not valid"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return "is not an http or https URL with a host"
    if "@" in parts.netloc:
        return "contains a user or password"
    return None
