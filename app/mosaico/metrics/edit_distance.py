"""Levenshtein distance of two texts."""

import operator
from collections.abc import Mapping
from itertools import compress
from typing import Final, NamedTuple

_STRIP: Final = 4096  # characters of the longer text at a time: bounds the memory of the masks


class _Carries(NamedTuple):
    """Differences of the distance along the lower edge of a strip, one entry per character.

    An entry is 1 in `up` where the distance grows by one, and 1 in `down` where it falls by one.
    """

    up: bytearray
    down: bytearray


def levenshtein(first: str, other: str) -> int:
    """The minimum number of code points to insert, delete or replace.

    Cost:   n·m / 64 machine words for lengths n and m, in strips of 4096 characters.
    Source: Myers 1999, bit blocks with carries, in the form of Hyyrö 2003.
    """
    # The longer text is cut into strips and held in the bits, so the loop in Python runs over the
    # shorter.
    longer, shorter = _different_part(*sorted((first, other), key=len, reverse=True))
    if not shorter:
        return len(longer)
    # The first row of the table: the distance to an empty text grows by 1 per character.
    carries = _Carries(up=bytearray(b"\1") * len(shorter), down=bytearray(len(shorter)))
    for start in range(0, len(longer), _STRIP):
        _pass_strip(longer[start : start + _STRIP], shorter, carries)
    return len(longer) + sum(carries.up) - sum(carries.down)


class _DifferingParts(NamedTuple):
    longer: str
    shorter: str


def _different_part(longer: str, shorter: str) -> _DifferingParts:
    """Both texts without their common prefix and suffix."""
    # Frequent for good agents, and decided without the table.
    if longer == shorter:
        return _DifferingParts("", "")
    start = _common_start(longer, shorter)
    end = _common_start(longer[start:][::-1], shorter[start:][::-1])
    return _DifferingParts(longer[start : len(longer) - end], shorter[start : len(shorter) - end])


def _common_start(longer: str, shorter: str) -> int:
    pairs = map(operator.ne, longer, shorter)
    return next(compress(range(len(shorter)), pairs), len(shorter))


def _pass_strip(strip: str, text: str, carries: _Carries) -> None:
    """Compute one strip of the distance table, column by column, all of its rows at once.

    Bit i of `rises` and `falls` is set when the distance in row i is one more or one less than in
    the row above. The paper calls them VP and VN, and `same`, `right_up`, `right_down` D0, HP, HN.
    """
    masks = _masks(strip, text)
    last = len(strip) - 1
    full = (1 << len(strip)) - 1
    rises, falls = full, 0
    up, down = carries
    for column, character in enumerate(text):
        above_down = down[column]
        equal = masks[character] | above_down
        same = (((equal & rises) + rises) ^ rises) | equal | falls
        right_up = falls | (full & ~(same | rises))
        right_down = rises & same
        above_up = up[column]
        up[column] = right_up >> last & 1
        down[column] = right_down >> last & 1
        right_up = right_up << 1 | above_up
        right_down = right_down << 1 | above_down
        rises = full & (right_down | ~(same | right_up))
        falls = full & right_up & same


def _masks(strip: str, text: str) -> Mapping[str, int]:
    """Positions in the strip of each character of the text, as bit masks; bit 0 is the first."""
    # Characters that the shorter text does not have are never looked up.
    masks = dict.fromkeys(text, 0)
    bit = 1
    for character in strip:
        if character in masks:
            masks[character] |= bit
        bit <<= 1
    return masks
