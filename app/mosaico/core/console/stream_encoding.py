"""Texts for streams that cannot encode all of Unicode, such as a terminal that reads ASCII."""

import codecs
from collections.abc import Iterable
from io import TextIOWrapper
from typing import TextIO

# The signs of our own texts, for terminals without them.
_ASCII_SIGNS = {"→": "->", "…": "...", "≤": "<=", "≥": ">=", "×": "x", "·": "-", "–": "-", "−": "-"}


def set_safe_encoding(streams: Iterable[TextIO]) -> None:
    """Print characters that a stream cannot encode in ASCII, or as escape sequences, instead of failing."""
    codecs.register_error("mosaico", _encode_in_ascii)
    for stream in streams:
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="mosaico")


def _encode_in_ascii(error: UnicodeError) -> tuple[str, int]:
    """Replaces the signs of our own texts; escapes all other characters."""
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end]
    return "".join(_ASCII_SIGNS.get(char) or _as_ascii(char) for char in text), error.end


def _as_ascii(char: str) -> str:
    return char.encode("ascii", "backslashreplace").decode("ascii")
