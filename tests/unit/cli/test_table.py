"""Results as tables."""

import pytest

from mosaico.core.console.short_ids import is_short_id, shorten_ids
from mosaico.core.console.table import (
    Column,
    Table,
    field,
    fit_columns,
    format_cell,
    print_details,
    print_page,
)
from mosaico.core.console.terminal import OutputFormat, WrongUsage

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


def test_print_page__pipe_gets_hyphens_before_negative_numbers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Programs that read the pipe know no minus sign U+2212; between words it is text.
    page = {"items": [{"id": "a − b", "name": "−0.23 to −.5", "n": -1}], "nextCursor": None}
    print_page(page, COLUMNS, OutputFormat.TABLE)
    assert capsys.readouterr().out == "id\ttitle\tdouble\na − b\t-0.23 to -.5\t-2\n"


def test_print_page__longer_list_is_noted_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    page = {"items": [{"id": "a", "name": "b", "n": 1}], "nextCursor": "c"}
    print_page(page, COLUMNS, OutputFormat.TABLE)
    assert "raise --limit to see more" in capsys.readouterr().err


def test_print_page__json_is_the_response(capsys: pytest.CaptureFixture[str]) -> None:
    print_page({"items": [{"id": "é"}], "nextCursor": None}, COLUMNS, OutputFormat.JSON)
    assert capsys.readouterr().out == '{"items": [{"id": "é"}], "nextCursor": null}\n'


def test_print_details__has_a_line_for_each_field_of_an_object_and_each_object_of_a_list(
    capsys: pytest.CaptureFixture[str],
) -> None:
    traces = [{"metric": "ROUGE", "value": 0.25, "url": None}, {"metric": "BLEU", "value": 0.0}]
    verdict = {"verdict": "REGRESSED", "interval": {"low": -0.5}, "names": ["a", "b"]}
    print_details({"verdict": verdict, "traces": traces, "details": {}})
    assert capsys.readouterr().out.splitlines() == [
        "verdict.verdict\tREGRESSED",
        "verdict.interval.low\t-0.5",
        "verdict.names\ta, b",
        "traces.1\tmetric ROUGE, value 0.25",
        "traces.2\tmetric BLEU, value 0",
        "details\t{}",
    ]


def test_print_details__names_of_fields_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    named = {"a\tb\x1b[2J\nc": "d"}
    print_details({"metadata": named, "items": [named]})
    lines = capsys.readouterr().out.splitlines()
    assert [line.count("\t") for line in lines] == [1, 1]
    assert not any("\x1b" in line for line in lines)


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


def test_print_page__fields_select_columns_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    page = {
        "items": [
            {"id": "a", "n": 1, "verdict": {"verdict": "REGRESSED"}},
            {"id": "b", "n": 2, "verdict": None},
        ],
        "nextCursor": None,
    }
    print_page(page, COLUMNS, OutputFormat.TABLE, "id, verdict.verdict")
    assert capsys.readouterr().out == "id\tverdict.verdict\na\tREGRESSED\nb\t\n"
    print_page(page, COLUMNS, OutputFormat.JSON, "n")
    assert capsys.readouterr().out == '{"items": [{"n": 1}, {"n": 2}], "nextCursor": null}\n'
    with pytest.raises(WrongUsage, match="--fields size: there is no field size"):
        print_page(page, COLUMNS, OutputFormat.TABLE, "id,size")


ID = "01a206ff-9f37-7164-82e4-bc5e04e5a7ea"


@pytest.mark.parametrize(
    ("ids", "shortened"),
    [
        ([ID], ["01a206ff-9f37"]),
        ([ID, ID], ["01a206ff-9f37", "01a206ff-9f37"]),
        # Two of one millisecond: as long as needed.
        ([ID, ID.replace("-71", "-72")], ["01a206ff-9f37-71", "01a206ff-9f37-72"]),
        (["support-bot", ""], ["support-bot", ""]),
    ],
)
def test_shorten_ids__keeps_what_tells_them_apart(ids: list[str], shortened: list[str]) -> None:
    assert shorten_ids(ids) == shortened
    assert all(is_short_id(text, "/agents") for text in shortened if text.startswith("01a2"))


def test_fit_columns__drops_empty_columns_then_the_last_and_breaks_no_word() -> None:
    table = Table(
        ["id", "state", "note", "name", "created"],
        [[ID, "COMPLETED", "", "a long name", "3 h ago"], [ID, "FAILED", "", "b", "2 d ago"]],
    )
    # 13 + 9 + 4 + 4 + 7 and five gaps of 3.
    assert fit_columns(table, 52).titles == table.titles
    assert fit_columns(table, 51).titles == ["id", "state", "name", "created"]
    assert fit_columns(table, 40).titles == ["id", "state", "name"]
    assert fit_columns(table, 1) == Table(["id"], [["01a206ff-9f37"]] * 2)
