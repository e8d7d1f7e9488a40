"""Traces of the length of real ones, as they are uploaded: 16 words expected, 97 answered."""

from tests.support.service import JSON

SENTENCE = "the pelican rents cargo bikes by the day and keeps their batteries warm in winter"
WORDS = SENTENCE.split()


def long_pair(number: int) -> JSON:
    """One trace; no two are alike."""
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
