"""JSON texts that are not one value, and what is wrong with those that are none; pure."""

import json
import re
from typing import Any, Final


def count_json_values(raw: bytes) -> int:
    """At least the number of JSON values: each follows a comma or begins a list or an object. Commas and
    brackets of texts are counted, too.
    """
    return raw.count(b",") + raw.count(b"[") + raw.count(b"{")


def parse_objects(text: str) -> list[Any] | None:
    """The objects of a text that holds several, one after the other, as `jq` prints them; None for another."""
    decoder, objects, end = json.JSONDecoder(), list[Any](), 0
    try:
        while end < len(text):
            value, end = decoder.raw_decode(text, end)
            objects.append(value)
            blanks = _BLANKS.match(text, end)
            end = blanks.end() if blanks else end
    except (ValueError, RecursionError):
        return None
    return objects if all(isinstance(value, dict) for value in objects) else None


_BLANKS: Final = re.compile(r"[ \t\r\n]*")


def explain_json_error(error: json.JSONDecodeError) -> str:
    """What a text that is almost JSON probably is; empty without a guess."""
    rest = error.doc[error.pos : error.pos + 1]
    before = error.doc[: error.pos].rstrip()
    if rest == "'" or before.endswith("'"):
        return "; the text has single quotes, as Python prints a dict: write it with json.dumps"
    if error.msg == "Extra data" and rest == ",":
        return "; remove the comma after the object"
    if error.msg == "Extra data" and rest in ("{", "["):
        return "; write each object on a line of its own"
    # Since Python 3.13 the error is that of the comma; before, that of the bracket after it.
    if error.msg.startswith("Illegal trailing comma"):
        return "; remove the comma"
    if rest in ("}", "]") and before.endswith(","):
        return "; remove the comma before it"
    return ""
