"""The comparison of a page with its documents notices what the API does not have; needs no browser."""

import pytest

from tests.browser.shown_data import ShownPart, count_data, missing_data

RUNS = [
    {"items": [{"id": "run-1", "value": 0.71234, "low": -0.2297, "verdict": "NO_EVIDENCE", "traces": 1740, "text": "58 items"},
               {"id": "run-2", "value": 0.5, "low": 0.1, "verdict": "REGRESSED", "traces": 9, "text": ""}]},
    {"total": 2, "bytes": 14_317_247, "ok": False},
]  # fmt: skip


def row(text: str, *badges: str, link: str = "/runs/run-1") -> ShownPart:
    return ShownPart(text, text, [link] if link else [], badges)


@pytest.mark.parametrize(
    ("part", "missing"),
    [
        (row("0.712 \N{MINUS SIGN}0.230 1,740 of 58", "○ no evidence"), []),
        (row("71.2 % \N{MINUS SIGN}23 %"), []),
        (row("0.713"), ["0.713"]),
        (row("0.7124"), ["0.7124"]),
        (row("1,741 traces"), ["1,741"]),
        (row("", "▼ regressed"), ["regressed"]),
        # Of another row, or of any if the part names none.
        (row("0.500"), ["0.500"]),
        (row("0.500 14.3 MB", "▼ regressed", "✗ failed", link=""), []),
        (row("0.501", link=""), ["0.501"]),
        # A name, a duration, a trial, the name of an interval and a version are no figures.
        (row("case-017 56 s trial 3 95 % CI v1.2"), []),
    ],
)
def test_missing_data__is_what_the_rows_of_a_part_do_not_have(
    part: ShownPart, missing: list[str]
) -> None:
    assert missing_data(part, RUNS) == missing


def test_count_data__counts_figures_and_verdicts() -> None:
    assert count_data(row("0.712 of 58, agent", "○ no evidence", "sample data")) == 3
