"""Traces like real ones: 16 expected words, 97 words in the output, of which a sixth is expected."""

from collections.abc import Sequence
from typing import Final

from tests.support.service import JSON

SENTENCE: Final = (
    "the pelican rents cargo bikes by the day and keeps their batteries warm in winter"
)
# An agent says more than is expected.
REMARKS: Final = (
    "A customer who wants one for a weekend should book it before Thursday, because most of them are"
    " taken on Fridays. Prices start at thirty euros, and members get a discount of ten percent. Helmets"
    " cost nothing. If a tire is flat, call us: somebody will come within an hour, Sundays included."
    " Children under six need a seat, which we can mount for you while you wait. Please return"
    " everything until seven, or tell our team that you will be late."
)


def long_pair(number: int) -> JSON:
    """A trace; each number gives a different one."""
    expected = expected_of(number)
    return {
        "traceId": f"t-{number}",
        "expectedOutput": f"{expected} {number}",
        "output": output_of(number),
    }


def expected_of(number: int) -> str:
    return _turned(SENTENCE.split(), number)


def output_of(number: int) -> str:
    return f"{expected_of(number)} {_turned(REMARKS.split(), number)} {number * 7}"


def _turned(words: Sequence[str], number: int) -> str:
    turn = number % len(words)
    return " ".join([*words[turn:], *words[:turn]])
