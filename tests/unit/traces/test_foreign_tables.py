"""Tables of other people: notations, odd cells, forms of documents, several answers, and what is left out."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mosaico.core.errors import AppError
from mosaico.traces.files.column_mapping import InvalidMapping, parse_mapping
from mosaico.traces.files.import_file import InvalidImport
from mosaico.traces.files.read_options import InvalidLabels, ReadOptions, parse_labels
from mosaico.traces.references import ListRule
from mosaico.traces.types import Trace, TraceOutcome
from tests.support.import_files import Imported, import_path, write_file, write_json_lines

ROWS = [
    {"id": "q0", "answer": "a", "gold": "a"},
    {"id": "q1", "answer": "b", "gold": "b"},
    {"id": "q2", "answer": "c", "gold": "x"},
]


def read_rows(tmp_path: Path, *rows: Any, options: ReadOptions | None = None) -> Imported:
    return import_path(write_json_lines(tmp_path / "a.jsonl", *rows), options=options)


def read_csv(tmp_path: Path, text: str, options: ReadOptions | None = None) -> Imported:
    return import_path(write_file(tmp_path / "a.csv", text), options=options)


def pairs(traces: list[Trace]) -> list[tuple[str, str | None, str | None]]:
    return [(trace.item_id, trace.output, trace.expected_output) for trace in traces]


# --- which column is what


def test_columns__two_answers_are_to_be_chosen_unless_a_score_decides(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidMapping, match="'llm_answer' and 'bot_reply' may each hold the answer"
    ):
        read_rows(tmp_path, {"id": 1, "llm_answer": "x", "bot_reply": "y", "gold": "x"})
    judged = read_rows(tmp_path, {"id": 1, "output_1": "x", "output_2": "y", "preference": 1.5})
    assert (judged.of("1").output, judged.of("1").scores) == (None, {"preference": 1.5})
    assert any("'output_1' and 'output_2' may each hold" in note for note in judged.notes)
    with pytest.raises(InvalidMapping, match="'reference' and 'gold' may each hold the expected"):
        read_rows(tmp_path, {"id": 1, "answer": "x", "reference": "y", "gold": "x"})


def test_columns__answers_are_found_by_their_values(tmp_path: Path) -> None:
    rows = [{"id": n, "gold": "yes" if n % 2 else "no", "phase": "Yes"} for n in range(6)]
    table = read_rows(tmp_path, *rows)
    assert (table.columns["output"], table.of("0").scores) == ("phase", {})
    assert any("'phase' is the answer: its values are those of 'gold'" in n for n in table.notes)
    with pytest.raises(InvalidMapping, match="'phase' and 'stage' may each hold the answer"):
        read_rows(tmp_path, *({**row, "stage": "no"} for row in rows))


@pytest.mark.parametrize(
    ("column", "cells", "is_score"),
    [
        ("correctness", [1, 4, 5], True),
        ("wert", [0.25, 0.5, 1], True),
        ("wert", ["25%", "50%", "100 %"], True),
        ("wert", [1, 4, 5], False),
        ("wert", [0, 1, 1], False),
        ("turn", [0.5, 0.5, 1], False),
        ("bookmarked", [True, False, True], False),
        ("is_flagged", [True, False, True], False),
    ],
)
def test_columns__numbers_are_scores_if_name_or_values_say_so(
    tmp_path: Path, column: str, cells: list[Any], is_score: bool
) -> None:
    table = read_rows(
        tmp_path, *({"id": f"q{n}", "answer": "x", column: c} for n, c in enumerate(cells))
    )
    assert (f"scores[{column}]" in table.columns) == is_score
    options = ReadOptions(mapping={f"scores[{column}]": column})
    named = import_path(tmp_path / "a.jsonl", options=options)
    assert all(column in trace.scores for trace in named.traces)


def test_columns__a_table_of_numbers_alone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidImport, match="no column holds the output of the agent, and none a score"
    ):
        read_rows(tmp_path, {"id": "a", "turn": 1, "errorCount": 2})


def test_columns__verdict_words_pass_or_fail(tmp_path: Path) -> None:
    table = read_rows(tmp_path, {"id": "a", "status": "PASS"}, {"id": "b", "status": "fail"})
    assert [trace.scores for trace in table.traces] == [{"TASK_PASSED": 1.0}, {"TASK_PASSED": 0.0}]
    other = read_rows(tmp_path, {"id": "a", "status": "ok", "answer": "x"})
    assert other.of("a").scores == {}


def test_columns__a_name_that_all_rows_share_is_no_item(tmp_path: Path) -> None:
    rows = [{"name": "nightly", "question": q, "answer": "x"} for q in ("a", "b")]
    assert [trace.item_id for trace in read_rows(tmp_path, *rows).traces] == ["a", "b"]


# --- cells


def test_cells__odd_ones_are_missing_with_their_place(tmp_path: Path) -> None:
    cells = ["4", "-", "8/10", *["3"] * 17]
    rows = "".join(f"q{n},x,{cell}\n" for n, cell in enumerate(cells))
    table = read_csv(tmp_path, f"id,answer,correctness\n{rows}")
    assert [t.scores for t in table.traces[:4]] == [
        {"correctness": 4.0},
        {},
        {},
        {"correctness": 3.0},
    ]
    [line] = table.left_out
    assert line == "cells of 'correctness' without a number are missing: line 3 '-', line 4 '8/10'"


@pytest.mark.parametrize(
    ("header", "cells", "read", "note"),
    [
        ("id;answer;cost", "a;x;1.230,50\nb;x;0,5", 1230.5, "a decimal comma: 1.230,50 is read as 1230.5"),
        ("id,answer,cost", 'a,x,"1,230.50"\nb,x,"2,100"', 1230.5, "commas between thousands: 1,230.50"),
        ("id,answer,cost", 'a,x,"1,230"', None, "'cost' is not used as cost: it holds '1,230'"),
        ("id,answer,cost", 'a,x,"1_230"', None, "'cost' is not used as cost"),
    ],
)  # fmt: skip
def test_cells__notation_of_numbers(
    tmp_path: Path, header: str, cells: str, read: float | None, note: str
) -> None:
    table = read_csv(tmp_path, f"{header}\n{cells}\n")
    assert table.of("a").cost_usd == read
    assert any(note in line for line in table.notes)


def test_cells__json_and_python_in_a_csv_file(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "Oslo"}]
    cells = [json.dumps(chat), str(chat), json.dumps({"answer": "Oslo"}), '{"city": "Oslo"}']
    quoted = [cell.replace('"', '""') for cell in cells]
    rows = "".join(f'q{n},"{cell}","[""a"", ""b""]"\n' for n, cell in enumerate(quoted))
    table = read_csv(tmp_path, f"id,answer,tags\n{rows}")
    assert [t.output for t in table.traces] == ["Oslo", "Oslo", "Oslo", '{"city": "Oslo"}']
    assert table.of("q0").tags == ("a", "b")
    assert table.opened == [
        "texts: answer from chat messages 2, answer from object with one text 1"
    ]


def test_cells__labels_are_numbers(tmp_path: Path) -> None:
    rows = [{"id": n, "grade": grade} for n, grade in enumerate("ABCD")]
    with pytest.raises(InvalidImport, match="--labels grade=A:NUMBER,B:NUMBER,C:NUMBER,D:NUMBER"):
        read_rows(tmp_path, *rows)
    options = ReadOptions(labels=parse_labels(["grade=A:1,B:0.5", "grade=C:0"]))
    table = read_rows(tmp_path, *rows, *rows, options=options)
    scores = [trace.scores.get("TASK_SCORE") for trace in table.traces[:4]]
    assert scores == [1.0, 0.5, 0.0, None]
    assert table.left_out == [
        "cells of 'grade' without a number are missing: line 4 'D', line 8 'D'"
    ]
    with pytest.raises(InvalidMapping, match="no column 'note' for --labels"):
        read_rows(tmp_path, *rows, options=ReadOptions(labels={"note": {"A": 1.0}}))
    with pytest.raises(InvalidLabels, match="LABEL:NUMBER"):
        parse_labels(["grade=A"])


# --- documents


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


def test_documents__objects_one_after_another(tmp_path: Path) -> None:
    text = "\n".join(json.dumps(row, indent=2) for row in ROWS)
    for name in ("a.jsonl", "a.json"):
        assert len(import_path(write_file(tmp_path / name, text)).traces) == 3


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
    report = '{"total": 5, "resolved_ids": ["a"], "error_ids": []}'
    with pytest.raises(InvalidImport, match="no column holds the output"):
        import_path(write_file(tmp_path / "c.json", report))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{'id': '1', 'answer': 'a'}\n{'id': '2', 'answer': 'a'}\n", "line 1, .* single quotes"),
        (
            '{"id": 1, "answer": "a",}\n{"id": 2, "answer": "b"}\n',
            "line 1, column 25.* remove the comma",
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
        "# made by a tool, today\n# version 2\nid,answer\n1,x\n2,y\n",
        "id,answer\r1,x\r2,y\r",
        "id,answer,\n1,x,\n2,y,\n",
    ],
)
def test_csv__dialects(tmp_path: Path, text: str) -> None:
    assert pairs(read_csv(tmp_path, text).traces) == [("1", "x", None), ("2", "y", None)]


def test_csv__lines_before_the_header_are_counted_in_messages(tmp_path: Path) -> None:
    with pytest.raises(InvalidImport, match="line 5: 1 cells"):
        read_csv(tmp_path, "# a\n# b\nid,answer\n1,x\n2\n")
    # A header may begin with a number sign.
    assert read_csv(tmp_path, "#,answer\n1,x\n").traces[0].output == "x"
    with pytest.raises(InvalidImport, match="line 2: a cell contains a NUL byte"):
        read_csv(tmp_path, "id,answer\n1,x\0\n")


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


# --- paths


def test_paths__reach_into_objects_lists_and_cells(tmp_path: Path) -> None:
    response = {"choices": [{"message": {"content": "x"}}], "note": "n"}
    mapping = dict(
        parse_mapping(["output=r.choices[0].message.content,item=meta.id", "expected=join(',', k)"])
    )
    assert mapping == {
        "output": "r.choices[0].message.content", "item": "meta.id", "expected": "join(',', k)",
    }  # fmt: skip
    row = {"r": response, "meta": {"id": "q"}, "a.b": "exact"}
    table = import_path(
        write_json_lines(tmp_path / "a.jsonl", row),
        output=mapping["output"],
        item="meta.id",
        expected="a.b",
    )
    assert pairs(table.traces) == [("q", "x", "exact")]
    cell = json.dumps(response).replace('"', '""')
    table = import_path(
        write_file(tmp_path / "a.csv", f'id,r\nq,"{cell}"\n'),
        output="r.choices[-1].message.content",
    )
    assert table.of("q").output == "x"
    with pytest.raises(InvalidMapping, match=r"no column 'r\.choices\[5\]\.message' for output"):
        import_path(tmp_path / "a.csv", output="r.choices[5].message")
    # The whole value, where one part of it would be taken.
    whole = import_path(
        write_json_lines(tmp_path / "b.jsonl", {"id": "q", "r": {"answer": "x", "n": 1}}),
        output="r.@",
    )
    assert whole.of("q").output == '{"answer": "x", "n": 1}'


# --- several texts


def test_expected__lists_of_alternatives(tmp_path: Path) -> None:
    forms: list[dict[str, Any]] = [
        {"ideal": ["a", "b"]},
        {"ground_truths": ["a", "b", "a"]},
        {"expected": {"text": ["a", "b"], "answer_start": [1, 2]}},
        {"expected": {"value": "a", "aliases": ["b"], "type": "w"}},
        {"reference": {"answers": ["a", "b"]}},
    ]
    for form in forms:
        trace = read_rows(tmp_path, {"id": "q", "output": "b", **form}).of("q")
        assert (trace.expected_output, trace.expected_any, trace.expected_all) == (
            "a",
            ("a", "b"),
            (),
        )


def test_expected__another_list_is_a_question(tmp_path: Path) -> None:
    row = {"id": "q", "output": "b", "expected": ["a", "b"]}
    with pytest.raises(
        InvalidImport,
        match=r"row 1, column 'expected': a list of 2 .*--expected any.*--expected all",
    ):
        read_rows(tmp_path, row)
    for rule in ListRule:
        trace = read_rows(tmp_path, row, options=ReadOptions(expected=rule)).of("q")
        assert {ListRule.ANY: trace.expected_any, ListRule.ALL: trace.expected_all}[rule] == (
            "a",
            "b",
        )
    assert read_rows(tmp_path, {**row, "expected": ["a"]}).of("q").expected_any == ()


def test_trials__are_the_answers_in_one_cell(tmp_path: Path) -> None:
    choices = [{"index": n, "message": {"role": "assistant", "content": f"a{n}"}} for n in (0, 1)]
    row = {"id": "q", "generations": ["a0", "a1"]}
    for answers in (
        row,
        {"id": "q", "response": {"choices": choices}},
        {"id": "q", "raw": {"choices": choices}},
    ):
        table = read_rows(tmp_path, answers)
        assert [(t.item_id, t.trial, t.output) for t in table.traces] == [
            ("q", 0, "a0"),
            ("q", 1, "a1"),
        ]
        assert any("1 item with 2 trials" in note for note in table.notes)


def test_batch_lines__errors_are_errors(tmp_path: Path) -> None:
    body = {"choices": [{"message": {"role": "assistant", "content": "x"}}]}
    limit = {"error": {"message": "slow down", "type": "rate_limit_error"}}
    table = read_rows(
        tmp_path,
        {"id": "b1", "custom_id": "q1", "response": {"status_code": 200, "body": body}, "error": None},
        {"id": "b2", "custom_id": "q2", "response": {"status_code": 429, "body": limit}, "error": None},
        {"id": "b3", "custom_id": "q3", "response": None, "error": {"code": "batch_expired", "message": "late"}},
    )  # fmt: skip
    assert [(t.item_id, t.output) for t in table.traces] == [
        ("q1", "x"),
        ("q2", None),
        ("q3", None),
    ]
    assert table.of("q2").outcome is TraceOutcome.INFRA_ERROR
    assert table.of("q3").error == "batch_expired: late"


def test_answers__tool_calls_without_a_text_are_named(tmp_path: Path) -> None:
    call = {"function": {"name": "refund", "arguments": '{"id": 7}'}}
    table = read_rows(
        tmp_path,
        {"id": "q", "output": {"role": "assistant", "content": None, "tool_calls": [call]}},
    )
    trace = table.of("q")
    assert (trace.output, trace.tool_calls and trace.tool_calls[0].name) == ("", "refund")
    assert any("tool calls without a text count as empty: refund 1" in line for line in table.lines)


def test_answers__thoughts_are_counted_or_stripped(tmp_path: Path) -> None:
    row = {"id": "q", "output": "<think>a</think>\n```\nx\n```"}
    table = read_rows(tmp_path, row)
    assert any("thoughts such as <think>: 1; --strip-thinking" in line for line in table.lines)
    options = ReadOptions(strip_thinking=True, strip_fences=True)
    assert read_rows(tmp_path, row, options=options).of("q").output == "x"


# --- what is left out


@pytest.mark.parametrize(
    ("row", "left_out"),
    [
        ({"note": "n"}, "columns that are not used: note"),
        ({"wert": 7}, "numbers that judge nothing"),
        ({"faithfulness": "-"}, ""),
        ({"latency": 3}, "has no unit"),
        ({"answer": {"text": "x", "sources": ["s"]}}, "members of texts: answer.sources"),
    ],
)
def test_strict__refuses_what_is_left_out(
    tmp_path: Path, row: dict[str, Any], left_out: str
) -> None:
    rows = [{"id": "a", "answer": "x", "faithfulness": 1}] * 9 + [
        {"id": "a", "answer": "x", "faithfulness": 1, **row}
    ]
    with pytest.raises(InvalidImport, match="not everything is used: .*" + left_out):
        read_rows(tmp_path, *rows, options=ReadOptions(strict=True))
    read_rows(tmp_path, *rows[:9], options=ReadOptions(strict=True))


def test_report__has_at_most_four_lines(tmp_path: Path) -> None:
    rows = [
        {
            "id": 1,
            "answer": {"text": "<think>a</think>x"},
            "tone": 0.5,
            "latency": 3,
            "note": "n",
            "wert": 7,
        },
        *[{"id": n, "answer": {"text": "x"}, "tone": 1} for n in range(2, 9)],
        {"id": 9, "answer": "x", "tone": "?"},
    ]
    assert len(read_rows(tmp_path, *rows).lines) == 4


CELLS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.lists(st.text(max_size=3), max_size=3)
)
COLUMNS = st.sampled_from(
    [
        "id",
        "answer",
        "output",
        "gold",
        "expected",
        "question",
        "score",
        "tone",
        "trial",
        "cost",
        "tags",
        "error",
        "x",
    ]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.dictionaries(COLUMNS, CELLS, max_size=6), min_size=1, max_size=6))
def test_any_table__one_row_is_one_result_or_an_error_says_why(
    tmp_path: Path, rows: list[dict[str, Any]]
) -> None:
    path = write_json_lines(tmp_path / "a.jsonl", *rows)
    try:
        table = import_path(path, options=ReadOptions(expected=ListRule.ANY))
    except AppError:
        return
    blank = sum(
        not row or all(isinstance(c, str) and not c.strip() for c in row.values()) for row in rows
    )
    assert len(table.traces) == len(rows) - blank
