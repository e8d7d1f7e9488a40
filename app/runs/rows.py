"""Rows of `trace_results` as binary COPY wants them, one `struct` call each.

The driver builds an array value by value in Python, which cost more than everything else that the
worker does to write a shard. Source: Postgres manual, COPY § Binary Format, and `array_recv`.
"""

import functools
import json
import struct
from collections.abc import Sequence
from typing import Any

FLOAT8_OID = 701
JSONB_VERSION = b"\x01"
NULL = -1

_HEAD = struct.Struct(">hiqiii")
_ARRAY_HEAD = struct.Struct(">iiiii")
_LENGTH = struct.Struct(">i")
_VALUE = struct.Struct(">id")
_NULL_VALUE = _NO_NOTES = _LENGTH.pack(NULL)


def result_row(
    run_seq: int, position: int, values: Sequence[float | None], notes: dict[str, Any] | None
) -> bytes:
    """One row: `run_seq int8, position int4, values float8[], notes jsonb`; values are not empty."""
    array = _sparse_array(values) if None in values else _full_array(values)
    head = _HEAD.pack(4, 8, run_seq, 4, position, len(array))
    return b"".join((head, array, _NO_NOTES if notes is None else _jsonb(notes)))


def _full_array(values: Sequence[float | None]) -> bytes:
    """The array when nothing is missing, the common case: all in one call."""
    parts: list[Any] = [8] * (2 * len(values))
    parts[1::2] = values
    return _full_struct(len(values)).pack(1, 0, FLOAT8_OID, len(values), 1, *parts)


@functools.lru_cache(maxsize=128)
def _full_struct(count: int) -> struct.Struct:
    return struct.Struct(">iiiii" + "id" * count)


def _sparse_array(values: Sequence[float | None]) -> bytes:
    parts = [_ARRAY_HEAD.pack(1, 1, FLOAT8_OID, len(values), 1)]
    parts += [_NULL_VALUE if value is None else _VALUE.pack(8, value) for value in values]
    return b"".join(parts)


def _jsonb(document: dict[str, Any]) -> bytes:
    body = JSONB_VERSION + json.dumps(document).encode()
    return _LENGTH.pack(len(body)) + body
