"""Tables of results: how columns are guessed and named, and what errors say."""

import re
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from mosaico.core.parameter_names import UserInterface, messages_for
from mosaico.traces.files.column_mapping import InvalidMapping, parse_mapping
from mosaico.traces.files.limited_file import InvalidImport
from mosaico.traces.files.read_options import ReadOptions
from mosaico.traces.files.table_columns import choose_columns
from mosaico.traces.files.trace_file import TraceReader
from mosaico.traces.types import TraceOutcome
from mosaico.traces.uploads.uploaded_traces import uploaded_file
from tests.support.import_files import import_path, pairs, refuse_plugin, write_file
from tests.support.texts import assert_names


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("id question gold answer", {"item": "id", "input": "question", "expected": "gold", "output": "answer"}),
        # Beside another output, an answer is the expected one.
        ("question answer prediction", {"input": "question", "expected": "answer", "output": "prediction"}),
        ("Item-ID Prompt Ground_Truth Model Output", {"item": "Item-ID", "input": "Prompt", "expected": "Ground_Truth", "output": "Output", "model": "Model"}),
        ("id qid reply", {"item": "qid", "output": "reply"}),
    ],
)  # fmt: skip
def test_choose_columns__guesses_by_name(columns: str, expected: dict[str, str]) -> None:
    row = dict.fromkeys(columns.split(), "x")
    assert choose_columns([row], {}).by_field == expected


def test_choose_columns__guess_never_fails_on_the_type_of_a_cell() -> None:
    rows: list[dict[str, Any]] = [
        {"output": "x", "cost": "3 EUR", "score": "7", "pass": "maybe", "tone": "0.5", "latency": 3}
    ]
    columns = choose_columns(rows, {})
    assert (columns.by_field, columns.scores) == (
        {"output": "output"},
        {"score": "score", "tone": "tone"},
    )
    assert columns.notes[:3] == [
        "the column 'pass' is not used as passed: it holds 'maybe'",
        "the column 'score' is not used as score, but as SCORE['score']: it holds '7'",
        "the column 'cost' is not used as cost: it holds '3 EUR'",
    ]
    assert columns.notes[3].startswith("the column 'latency' has no unit and is not used")


def test_parse_mapping__names_win_over_guesses_and_may_be_empty() -> None:
    mapping = parse_mapping(["output=reply,expected=", "item=meta.key"])
    assert mapping == {"output": "reply", "expected": "", "item": "meta.key"}
    row = {"reply": "a", "output": "b", "gold": "c", "meta": {"key": 1}}
    assert choose_columns([row], mapping).by_field == {"output": "reply", "item": "meta.key"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("output", "'output' does not have the form FIELD=COLUMN"),
        ("ouput=a", "no field is named 'ouput'. Did you mean output"),
        ("question=a", "no field is named 'question'. Did you mean input"),
        ("gold=a", "no field is named 'gold'. Did you mean expected"),
        ("id=a", "no field is named 'id'. Did you mean item"),
        ("output=a,output=b", "the field output is mapped twice"),
    ],
)
def test_parse_mapping__errors_say_what_to_write(text: str, message: str) -> None:
    with pytest.raises(InvalidMapping, match=message):
        parse_mapping([text])


def test_csv__spreadsheet_with_mark_quotes_and_semicolons(tmp_path: Path) -> None:
    path = write_file(
        tmp_path / "a.csv",
        "\ufeffid;question;output;expected;latency_s;cost;trial\r\n"
        'q1;"two\nlines; and a ""quote""";yes;Yes;1.5;0.25;0\r\n'
        "\r\n"
        "q1;x;;None;;;1\r\n",
    )
    table = import_path(path)
    first, second = table.of("q1", 0), table.of("q1", 1)
    assert first.input == 'two\nlines; and a "quote"'
    assert (first.latency_ms, first.cost_usd) == (1500.0, 0.25)
    # Asked and not answered: an empty answer. The word None may be an expected answer.
    assert (second.output, second.expected_output, second.latency_ms) == ("", "None", None)


def test_csv__empty_cells_of_a_single_column_are_lost_rows(tmp_path: Path) -> None:
    path = write_file(tmp_path / "a.csv", 'answer\na\n""\nb\n')
    table = import_path(path)
    assert [trace.output for trace in table.traces] == ["a", "b"]
    assert table.left_out == ["rows without any text are skipped: line 3"]
    # One of three: what was lost is the first thing to know.
    assert table.lines[0].startswith(f"{path}: 1 of 3 rows are lost (33 %)")


def test_csv__titles_above_the_header(tmp_path: Path) -> None:
    rows = "Results of 2026,,\nby the team,,\n,,\nid,question,answer\n1,q,a\n2,r,b\n"
    table = import_path(write_file(tmp_path / "a.csv", rows))
    assert pairs(table.traces) == [("1", "a", None), ("2", "b", None)]
    assert any("titles above the header: 2" in note for note in table.notes)
    # A single column beside unnamed empty ones has no title, and an answer with a comma is not a header.
    column = import_path(write_file(tmp_path / "b.csv", "answer,\nx,\ny,\n"))
    assert [trace.output for trace in column.traces] == ["x", "y"]
    commas = import_path(write_file(tmp_path / "c.csv", "answer\nParis, France\n"))
    assert [trace.output for trace in commas.traces] == ["Paris, France"]


def test_csv__notes_name_the_columns_to_map(tmp_path: Path) -> None:
    path = write_file(tmp_path / "a.csv", "Ort,Stadtname,answer\nq-1,Rom,Rom\n")
    table = import_path(path)
    expected, ignored = table.notes
    # First, as it may make a comparison wrong.
    item, form = table.lines[0].split("; ")[:2], table.lines[0].split("; ")[2]
    assert item[0].endswith("paired by their position")
    assert (item[1], form) == ("name it: --map item=COLUMN", "CSV table")
    assert expected.endswith("that need none are computed; name it: --map expected=COLUMN")
    assert ignored.endswith("Ort, Stadtname")


def test_csv__question_and_answer_are_both_empty(tmp_path: Path) -> None:
    path = write_file(tmp_path / "a.csv", "question,expected,answer\nq,e,a\n,e,\n")
    with pytest.raises(InvalidImport) as refused:
        import_path(path)
    assert_names(str(refused.value), f"{path}: line 3", "'question' and 'answer'", "--map input=")
    # An error or a score says what happened to the question that the file does not have.
    write_file(path, "id,question,answer,error\n1,,,TimeoutError\n")
    assert import_path(path).of("1").error == "TimeoutError"


@pytest.mark.parametrize(
    ("caller", "named"),
    [
        (UserInterface.COMMAND, "Name the column: --map output=COLUMN"),
        (UserInterface.PYTHON, "Name the column: columns={'output': 'COLUMN'}"),
        (UserInterface.UPLOAD_FORM, "Name the column: output=COLUMN in the field Columns"),
        (UserInterface.SERVICE, "Name the column: output as its name in the file"),
    ],
)
def test_error__names_parameters_as_its_reader_knows_them(
    caller: UserInterface, named: str
) -> None:
    with messages_for(caller), pytest.raises(InvalidImport, match=re.escape(named)):
        uploaded_file("run.csv", BytesIO(b"id,note\n1,x\n"))


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "run.csv: the file is empty; expected"), (b"id,answer\n,\n", "no row follows it")],
)
def test_upload__empty_file_has_the_error_of_score(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "run.csv"
    path.write_bytes(content)
    reader = TraceReader(print, refuse_plugin)
    for open_file in (reader.open, reader.upload_lines, reader.open_items):
        with pytest.raises(InvalidImport, match=message), open_file(path) as rows:
            list(rows)
    with pytest.raises(InvalidImport, match=message):
        uploaded_file("run.csv", BytesIO(content))


def test_csv__decimal_commas_are_read_as_numbers(tmp_path: Path) -> None:
    path = write_file(
        tmp_path / "a.csv", "id;answer;punteggio;cost\n1;3,14;0,812;1,250\n2;b;1;0,5\n"
    )
    table = import_path(path)
    assert [trace.scores for trace in table.traces] == [{"punteggio": 0.812}, {"punteggio": 1.0}]
    assert (table.of("1").output, table.of("1").cost_usd) == ("3,14", 1.25)
    assert "numbers have a decimal comma: 3,14 is read as 3.14" in table.notes


@pytest.mark.parametrize(
    "rows", ['1,x,"1,250",0.5', '1,x,"1,250",1'], ids=["points elsewhere", "thousands"]
)
def test_csv__comma_that_may_separate_thousands_is_no_decimal_comma(
    tmp_path: Path, rows: str
) -> None:
    table = import_path(write_file(tmp_path / "a.csv", f"id,answer,cost,tone\n{rows}\n"))
    assert table.of("1").cost_usd is None
    assert "the column 'cost' is not used as cost: it holds '1,250'" in table.notes


def test_json_lines__error_names_nested_columns_as_the_mapping_does(tmp_path: Path) -> None:
    path = write_file(
        tmp_path / "a.jsonl", '{"meta": {"id": 1}, "thing": {"text": "x"}, "n": {}}\n'
    )
    with pytest.raises(InvalidImport, match=re.escape("are meta.id, thing.text, n")):
        import_path(path)
    with pytest.raises(InvalidMapping, match=re.escape("Columns: meta.id, thing.text, n.")):
        import_path(path, output="thing.txt")


def test_csv__scores_and_outcomes(tmp_path: Path) -> None:
    path = write_file(
        tmp_path / "a.csv",
        "id,output,passed,tone,error,model,category,tags\n"
        'a,x,true,0.5,,m1,billing,"new, vip"\n'
        "b,,FAIL,nan,Rate limit exceeded,m1,billing,\n"
        "c,,no,,KeyError: x,m1,,\n",
    )
    table = import_path(path)
    assert table.of("a").scores == {"TASK_PASSED": 1.0, "tone": 0.5}
    assert table.of("a").tags == ("new", "vip", "category:billing", "model:m1")
    assert (table.of("b").outcome, table.of("b").output) == (TraceOutcome.INFRA_ERROR, "")
    assert table.of("c").outcome is TraceOutcome.AGENT_ERROR
    assert table.columns["scores[tone]"] == "tone"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,output\n1,x\n2\n", "line 3: 1 cells, but the header has 2 columns"),
        ('id,output\n1,"x\ny\n', "line 2: a quoted cell begins here and does not end"),
        ('id,output\n1,"x"y\n', "line 2: text follows a closing quote"),
        ("id,note\n1,x\n", "line 2: no column holds the output of the agent, and none a score; its columns are id, note"),
        ("id,output\n,x\n", "line 2, column 'id': empty, but an ID is expected"),
        (
            # The first 100 rows choose the columns: what comes behind them is an error of its line.
            "id,output,trial\n" + "1,x,0\n" * 101 + "1,x,first\n",
            "line 103, column 'trial': 'first', but a number is expected",
        ),
    ],
)  # fmt: skip
def test_csv__errors_name_file_line_and_column(tmp_path: Path, text: str, message: str) -> None:
    path = write_file(tmp_path / "a.csv", text)
    with pytest.raises(InvalidImport, match=re.escape(f"a.csv: {message}")):
        import_path(path)


def test_csv__columns_of_one_name_are_to_be_chosen(tmp_path: Path) -> None:
    path = write_file(tmp_path / "a.csv", "id,output,id\n1,x,2\n")
    with pytest.raises(
        InvalidMapping, match=r"read as 'id' and 'id \(2\)': choose one: --map item="
    ):
        import_path(path)
    assert import_path(path, item="id (2)").of("2").output == "x"
    # What is not used may occur twice.
    table = import_path(write_file(path, "id,output,note,note\n1,x,a,b\n"))
    assert table.notes[-1].endswith("note, note (2)")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "UTF-16", "UTF-16-LE", "UTF-32", "cp1252"])
def test_csv__encodings_of_spreadsheets_are_read(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.csv"
    mark = "\ufeff" if encoding == "UTF-16-LE" else ""
    path.write_bytes(f"{mark}id,output\n1,x\n2,“é”\n".encode(encoding))
    table = import_path(path)
    assert table.of("2").output == "“é”"
    assert any("read as Windows-1252" in note for note in table.notes) == (encoding == "cp1252")


def test_csv__other_encoding_names_the_line_and_the_option(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("id,output\n1,x\n2,привет мир\n".encode("cp1251"))
    with pytest.raises(InvalidImport, match=r"a.csv: line 3: not UTF-8 text; .* --encoding"):
        import_path(path)
    named = import_path(path, options=ReadOptions(encoding="windows-1251"))
    assert named.of("2").output == "привет мир"
    with pytest.raises(InvalidImport, match="'utf-17' is not an encoding"):
        import_path(path, options=ReadOptions(encoding="utf-17"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv.gz", b"\x1f\x8b\x08\x00", "the file is compressed; unpack it with gunzip"),
        ("a.xls", b"\xd0\xcf", "a spreadsheet; save the sheet as .xlsx or CSV"),
    ],
)
def test_format__of_another_kind_says_what_to_do(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidImport, match=message):
        import_path(path)


def test_parquet__broken_file_is_named_so(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    path.write_bytes(b"\xff" * 100)
    with pytest.raises(InvalidImport, match="not a valid Parquet file"):
        import_path(path)
