"""Answers as tables."""

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


def test_a_pipe_gets_tabs_and_every_character(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 500
    page = {"items": [{"id": "a", "name": long, "n": 0.25}], "nextCursor": None}
    print_page(page, COLUMNS, OutputFormat.TABLE)
    printed = capsys.readouterr()
    assert printed.out == f"id\ttitle\tdouble\na\t{long}\t0.5\n"
    assert printed.err == ""


def test_an_empty_list_is_its_titles(capsys: pytest.CaptureFixture[str]) -> None:
    print_page({"items": [], "nextCursor": None}, COLUMNS, OutputFormat.TABLE)
    assert capsys.readouterr().out == "id\ttitle\tdouble\n"


def test_a_list_that_goes_on_says_so_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    page = {"items": [{"id": "a", "name": "b", "n": 1}], "nextCursor": "c"}
    print_page(page, COLUMNS, OutputFormat.TABLE)
    assert "raise --limit to see more" in capsys.readouterr().err


def test_json_is_the_page_itself(capsys: pytest.CaptureFixture[str]) -> None:
    print_page({"items": [{"id": "é"}], "nextCursor": None}, COLUMNS, OutputFormat.JSON)
    assert capsys.readouterr().out == '{"items": [{"id": "é"}], "nextCursor": null}\n'


def test_details_are_a_line_a_field(capsys: pytest.CaptureFixture[str]) -> None:
    print_details({"id": "a", "secretSet": True, "url": None})
    assert capsys.readouterr().out == "id\ta\nsecretSet\tyes\nurl\t\n"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (0, "0"),
        (0.0, "0"),
        (2 / 3, "0.666667"),
        (1234567.0, "1.23457e+06"),
        (True, "yes"),
        (False, "no"),
        (["a", 1, None], "a, 1, "),
        ("a\tb", "a\\tb"),
    ],
)
def test_a_missing_value_is_an_empty_cell_and_never_a_zero(value: object, shown: str) -> None:
    assert format_cell(value) == shown


@pytest.mark.parametrize(
    ("age", "shown"),
    [
        (timedelta(seconds=-5), "now"),
        (timedelta(seconds=0.9), "now"),
        (timedelta(seconds=59), "59 s ago"),
        (timedelta(minutes=59, seconds=59), "59 min ago"),
        (timedelta(hours=3, minutes=20), "3 h ago"),
        (timedelta(days=400), "400 d ago"),
    ],
)
def test_an_age_is_told_in_its_largest_unit(age: timedelta, shown: str) -> None:
    assert format_age(age) == shown


def test_a_pipe_gets_instants_as_they_are() -> None:
    assert format_time("2026-11-21T22:00:00Z") == "2026-11-21T22:00:00Z"
    assert format_time(None) == ""


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (5 * 1024**2, "5 MiB"),
        (3 * 1024**4, "3.07e+03 GiB"),
    ],
)
def test_sizes_have_a_unit(count: int, shown: str) -> None:
    assert format_bytes(count) == shown
