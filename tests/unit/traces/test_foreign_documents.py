"""Documents and texts of other people: JSON of data frames, dialects of CSV, spreadsheets."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from mosaico.traces.files.imported_values import amount_of
from mosaico.traces.files.limited_file import InvalidImport
from mosaico.traces.files.read_options import ReadOptions
from tests.support.import_files import import_path, pairs, read_csv, write_file

ROWS = [
    {"id": "q0", "answer": "a", "gold": "a"},
    {"id": "q1", "answer": "b", "gold": "b"},
    {"id": "q2", "answer": "c", "gold": "x"},
]


@pytest.mark.parametrize(
    "document",
    [
        ROWS,
        {"columns": ["id", "answer", "gold"], "index": [0, 1, 2], "data": [[*r.values()] for r in ROWS]},
        {name: {str(n): row[name] for n, row in enumerate(ROWS)} for name in ROWS[0]},
        {name: [row[name] for row in ROWS] for name in ROWS[0]},
        {name: {row["id"]: row[name] for row in ROWS} for name in ("answer", "gold")},
        {row["id"]: {"answer": row["answer"], "gold": row["gold"]} for row in ROWS},
        {str(n): row for n, row in enumerate(ROWS)},
        {"version": 2, "examples": ROWS},
    ],
    ids=["records", "split", "columns", "lists", "columns by id", "by id", "index", "member"],
)  # fmt: skip
def test_documents__forms_of_a_table(tmp_path: Path, document: Any) -> None:
    table = import_path(write_file(tmp_path / "a.json", json.dumps(document)))
    assert pairs(table.traces) == [("q0", "a", "a"), ("q1", "b", "b"), ("q2", "c", "x")]


def test_documents__lists_and_texts_by_id(tmp_path: Path) -> None:
    trials = {"q1": [{"solution": "x", "passed": True}, {"solution": "y", "passed": False}]}
    table = import_path(write_file(tmp_path / "a.json", json.dumps(trials)))
    assert [(t.item_id, t.trial, t.scores) for t in table.traces] == [
        ("q1", 0, {"TASK_PASSED": 1.0}),
        ("q1", 1, {"TASK_PASSED": 0.0}),
    ]
    texts = {"56be-a": "Denver", "56be-b": "Rome"}
    table = import_path(write_file(tmp_path / "b.json", json.dumps(texts)))
    assert pairs(table.traces) == [("56be-a", "Denver", None), ("56be-b", "Rome", None)]


def test_documents__one_object_says_that_it_is_one_result(tmp_path: Path) -> None:
    table = import_path(
        write_file(tmp_path / "a.json", '{"id": "a", "answer": "x", "tags": ["t"]}')
    )
    assert (len(table.traces), table.of("a").output) == (1, "x")
    assert any("is read as one result" in note for note in table.notes)
    uneven = '{"answer": ["a", "b"], "gold": ["a"]}'
    with pytest.raises(InvalidImport, match="lists of several lengths"):
        import_path(write_file(tmp_path / "b.json", uneven))
    report = '{"total": 5, "accepted_ids": ["a"], "other_ids": []}'
    with pytest.raises(InvalidImport, match="no column holds the output"):
        import_path(write_file(tmp_path / "c.json", report))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{'id': '1', 'answer': 'a'}\n{'id': '2', 'answer': 'a'}\n", "line 1, .* single quotes"),
        (
            '{"id": 1, "answer": "a",}\n{"id": 2, "answer": "b"}\n',
            "line 1, column 2[45].* remove the comma",
        ),
    ],
)
def test_json_lines__what_is_almost_json(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidImport, match=message):
        import_path(write_file(tmp_path / "a.jsonl", text))


@pytest.mark.parametrize(
    "text",
    [
        "sep=;\r\nid;answer\r\n1;x\r\n2;y\r\n",
        '"sep=|"\nid|answer\n1|x\n2|y\n',
        "sep=;\n# made by a tool; today\n# version 2\nid;answer\n1;x\n2;y\n",
        "# made by a tool, today\n# version 2\nid,answer\n1,x\n2,y\n",
        "id,answer\r1,x\r2,y\r",
        "id,answer,\n1,x,\n2,y,\n",
    ],
)
def test_csv__dialects(tmp_path: Path, text: str) -> None:
    assert pairs(read_csv(tmp_path, text).traces) == [("1", "x", None), ("2", "y", None)]


def test_xlsx__first_sheet(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Answers"
    for row in (
        [],
        ["ID", "Final Answer", "Ground Truth", "Tone"],
        [7, "x", "x", 0.5],
        [8, None, "y", "#N/A"],
    ):
        sheet.append(row)
    book.create_sheet("Notes").append(["something"])
    book.save(tmp_path / "a.xlsx")
    table = import_path(tmp_path / "a.xlsx")
    assert pairs(table.traces) == [("7", "x", "x"), ("8", "", "y")]
    assert (table.format, table.of("7").scores, table.of("8").scores) == ("xlsx", {"Tone": 0.5}, {})
    assert any("the sheet 'Answers' is read, and not 'Notes'" in note for note in table.notes)
    (tmp_path / "b.xlsx").write_bytes(b"PK\x03\x04broken")
    with pytest.raises(InvalidImport, match="not a valid spreadsheet"):
        import_path(tmp_path / "b.xlsx")


def write_sheets(path: Path, sheets: Mapping[str, Sequence[Sequence[Any]]]) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_xlsx__titles_and_blank_rows_are_no_results(tmp_path: Path) -> None:
    rows: list[list[Any]] = [
        ["Results of November"],
        [],
        ["id", "answer"],
        [1, "x"],
        [None, None],
        [2, "y"],
        [None, ""],
    ]
    table = import_path(write_sheets(tmp_path / "a.xlsx", {"A": rows}))
    assert pairs(table.traces) == [("1", "x", None), ("2", "y", None)]
    assert any("titles above the header: 1" in note for note in table.notes)
    column = import_path(write_sheets(tmp_path / "b.xlsx", {"A": [["answer"], ["x"], ["y"]]}))
    assert [trace.output for trace in column.traces] == ["x", "y"]


def test_xlsx__a_sheet_is_chosen(tmp_path: Path) -> None:
    path = write_sheets(
        tmp_path / "a.xlsx", {"Info": [["by", "me"]], "Data": [["id", "answer"], [1, "x"]]}
    )
    with pytest.raises(InvalidImport, match="'Info' is read, and not 'Data'; --sheet"):
        import_path(write_sheets(tmp_path / "b.xlsx", {"Info": [["by"], ["me"]], "Data": [["id"]]}))
    assert pairs(import_path(path, options=ReadOptions(sheet="Data")).traces) == [("1", "x", None)]
    with pytest.raises(InvalidImport, match=r"no sheet .* 'data'; sheets: 'Info', 'Data'"):
        import_path(path, options=ReadOptions(sheet="data"))


def test_csv__another_content_than_its_name_says(tmp_path: Path) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    assert len(import_path(write_file(tmp_path / "a.csv", lines)).traces) == 3
    (tmp_path / "b.csv").write_bytes("id,answer\n1,x\n".encode("utf-16-le"))
    with pytest.raises(InvalidImport, match=r"looks like UTF-16.*--encoding utf-16-le"):
        import_path(tmp_path / "b.csv")
    options = ReadOptions(encoding="utf-16-le")
    assert len(import_path(tmp_path / "b.csv", options=options).traces) == 1


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_csv__utf_16_without_a_mark_is_named(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("id\tanswer\n1\tx\n2\tä\n".encode(encoding))
    with pytest.raises(InvalidImport, match=f"UTF-16.* {encoding}"):
        import_path(path)


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_json__number_of_thousands_of_digits_is_an_error(tmp_path: Path, name: str) -> None:
    row = '{"id": 1, "answer": "a", "seed": ' + "9" * 5000 + "}"
    text = f"[{row}]" if name == "a.json" else f"{row}\n{row}\n"
    with pytest.raises(InvalidImport, match="thousands of digits"):
        import_path(write_file(tmp_path / name, text))


def test_amount__number_beyond_a_double_is_none() -> None:
    assert amount_of(1.5, 1000) == 1500
    assert amount_of(10**400) is None
    assert amount_of(1e308, 1000) is None
    assert amount_of(-1) is None
