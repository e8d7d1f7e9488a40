"""Results as tables."""

from datetime import timedelta

import pytest

from app.core.console.table import (
    Column,
    field,
    format_age,
    format_bytes,
    format_cell,
    format_time,
    print_details,
    print_page,
)
from app.core.console.terminal import OutputFormat

COLUMNS = (field("id"), field("name", "title"), Column("double", lambda item: item["n"] * 2))


def test_print_page__pipe_gets_tabs_and_nothing_truncated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    long = "x" * 500
    page = {"items": [{"id": "a", "name": long, "n": 0.25}], "nextCursor": None}
    print_page(page, COLUMNS, OutputFormat.TABLE)
    printed = capsys.readouterr()
    assert printed.out == f"id\ttitle\tdouble\na\t{long}\t0.5\n"
    assert printed.err == ""


def test_print_page__empty_list_is_its_titles(capsys: pytest.CaptureFixture[str]) -> None:
    print_page({"items": [], "nextCursor": None}, COLUMNS, OutputFormat.TABLE)
    assert capsys.readouterr().out == "id\ttitle\tdouble\n"


def test_print_page__longer_list_is_noted_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    page = {"items": [{"id": "a", "name": "b", "n": 1}], "nextCursor": "c"}
    print_page(page, COLUMNS, OutputFormat.TABLE)
    assert "raise --limit to see more" in capsys.readouterr().err


def test_print_page__json_is_the_response(capsys: pytest.CaptureFixture[str]) -> None:
    print_page({"items": [{"id": "é"}], "nextCursor": None}, COLUMNS, OutputFormat.JSON)
    assert capsys.readouterr().out == '{"items": [{"id": "é"}], "nextCursor": null}\n'


def test_print_details__prints_one_line_per_field(capsys: pytest.CaptureFixture[str]) -> None:
    print_details({"id": "a", "secretSet": True, "url": None})
    assert capsys.readouterr().out == "id\ta\nsecretSet\tyes\nurl\t\n"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ""),
        (0, "0"),
        (0.0, "0"),
        (2 / 3, "0.666667"),
        (1234567.0, "1.23457e+06"),
        (True, "yes"),
        (False, "no"),
        (["a", 1, None], "a, 1, "),
        ({"a": [1, None]}, '{"a": [1, null]}'),
        ("a\tb", "a\\tb"),
    ],
)
def test_format_cell__missing_value_is_empty_and_never_zero(value: object, expected: str) -> None:
    assert format_cell(value) == expected


@pytest.mark.parametrize(
    ("age", "expected"),
    [
        (timedelta(seconds=-5), "now"),
        (timedelta(seconds=0.9), "now"),
        (timedelta(seconds=59), "59 s ago"),
        (timedelta(minutes=59, seconds=59), "59 min ago"),
        (timedelta(hours=3, minutes=20), "3 h ago"),
        (timedelta(days=400), "400 d ago"),
        (timedelta(minutes=-90), "in 1 h"),
    ],
)
def test_format_age__uses_the_largest_unit(age: timedelta, expected: str) -> None:
    assert format_age(age) == expected


def test_format_time__pipe_gets_iso_8601() -> None:
    assert format_time("2026-11-21T22:00:00Z") == "2026-11-21T22:00:00Z"
    assert format_time(None) == ""


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (5 * 1024**2, "5 MiB"),
        (3 * 1024**4, "3.07e+03 GiB"),
    ],
)
def test_format_bytes__adds_a_unit(count: int, expected: str) -> None:
    assert format_bytes(count) == expected
