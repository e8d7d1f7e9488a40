"""Identifiers: chosen by the client, or time-ordered UUIDs."""

import re

import uuid_utils

IDENTIFIER_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"

_IDENTIFIER = re.compile(IDENTIFIER_PATTERN)


def new_id() -> str:
    """A time-ordered UUID. Source: RFC 9562 §5.7 (version 7)."""
    return str(uuid_utils.uuid7())


def is_identifier(text: str) -> bool:
    """Return whether a text may be used as an identifier."""
    return _IDENTIFIER.fullmatch(text) is not None


def is_path_segment(name: str) -> bool:
    """Return whether a name can be a segment of a path.

    `.` and `..` cannot, not even percent-encoded: URL parsers resolve them (WHATWG URL, dot
    segments).
    """
    return name not in (".", "..")
