"""The comparison of a page with its documents notices what the API does not have; needs no browser."""

import pytest

from tests.browser.shown_data import ApiData, ShownPart

DATA = ApiData(
    [
        {"items": [{"id": "run-1", "value": 0.71234, "low": -0.2297, "verdict": "NO_EVIDENCE", "traces": 1740,
                    "text": "58 items of 60", "trial": 2, "createdAt": "2026-11-21T06:00:00.25Z"},
                   {"id": "run-2", "value": 0.5, "low": 0.1, "verdict": "REGRESSED", "traces": 9, "text": ""}]},
        {"total": 2, "bytes": 14_317_247, "ok": False},
    ]
)  # fmt: skip


def row(
    text: str, *badges: str, label: str = "", link: str = "/runs/run-1?tab=all", time: str = ""
) -> ShownPart:
    times = [time] if time else []
    return ShownPart(text, [(label, text)], times, [link] if link else [], badges, is_row=True)


@pytest.mark.parametrize(
    ("part", "missing"),
    [
        (row("0.712 \N{MINUS SIGN}0.230 1,740 traces, 58 items of 60", "○ no evidence"), []),
        (row("71.2 % \N{MINUS SIGN}23 %"), []),
        (row("0.713"), ["0.713"]),
        (row("0.7124"), ["0.7124"]),
        (row("1,741 traces"), ["1,741"]),
        (row("", "▼ regressed"), ["regressed"]),
        # The sign counts, and so does the field where the column says which one it is.
        (row("0.230"), ["0.230"]),
        (row("+0.712"), []),
        (row("\N{MINUS SIGN}0.712"), ["\N{MINUS SIGN}0.712"]),
        (row("0.712", label="95 % CI"), ["0.712"]),
        (row("\N{MINUS SIGN}0.230", label="95 % CI"), []),
        # A number of a sentence is no figure; half of a sentence is none of the API.
        (row("58 items"), []),
        (row("58 traces"), ["58"]),
        # Of another row, or of any if the part names none.
        (row("0.500"), ["0.500"]),
        (row("0.500 14.3 MB", "▼ regressed", "✗ failed", link=""), []),
        (row("0.501", link=""), ["0.501"]),
        # A time has the second of one of the API, a day is one of its days.
        (row("21 Nov", time="2026-11-21T07:00:00+01:00"), []),
        (row("20 Nov", time="2026-11-21T06:00:01Z"), ["2026-11-21T06:00:01Z", "20 Nov"]),
        # People count trials from one.
        (row("case-017 56 s trial 3 95 % CI v1.2"), []),
        (row("trial 5"), ["4"]),
    ],
)
def test_missing__is_what_the_rows_of_a_part_do_not_have(
    part: ShownPart, missing: list[str]
) -> None:
    assert DATA.missing(part) == missing


def test_count__is_that_of_figures_times_and_verdicts() -> None:
    part = row("0.712 of 58, agent", "○ no evidence", "sample data", time="2026-11-21T06:00:00Z")
    assert DATA.count(part) == 4
