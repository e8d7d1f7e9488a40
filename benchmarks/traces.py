"""Traces as long as real ones: 16 expected words, 97 words in the output."""

from tests.support.service import JSON

SENTENCE = "the pelican rents cargo bikes by the day and keeps their batteries warm in winter"
WORDS = SENTENCE.split()


def long_pair(number: int) -> JSON:
    """A trace; each number gives a different one."""
    expected = expected_of(number)
    return {
        "traceId": f"t-{number}",
        "expectedOutput": f"{expected} {number}",
        "output": output_of(number),
    }


def expected_of(number: int) -> str:
    turn = number % len(WORDS)
    return " ".join(WORDS[turn:] + WORDS[:turn])


def output_of(number: int) -> str:
    return " ".join([expected_of(number)] * 6) + f" {number * 7}"
