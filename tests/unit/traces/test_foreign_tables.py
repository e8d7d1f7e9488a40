"""Tables of other people: notations, odd cells, forms of documents, several answers, and what is left out."""

import json
from pathlib import Path
from typing import Any

import pytest

from mosaico.traces.files.column_mapping import InvalidMapping, parse_mapping
from mosaico.traces.files.import_file import InvalidImport
from mosaico.traces.files.read_options import InvalidLabels, ReadOptions, parse_labels
from mosaico.traces.references import ListRule
from mosaico.traces.types import TraceOutcome
from tests.support.import_files import (
    import_path,
    pairs,
    read_csv,
    read_rows,
    write_file,
    write_json_lines,
)

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


def test_cells__a_score_without_any_number_says_why_it_is_not_used(tmp_path: Path) -> None:
    table = read_csv(tmp_path, "id,answer,correctness\na,x,NaN\nb,y,NaN\n")
    assert table.of("a").scores == {}
    assert "columns without a value in the first 2 rows: correctness" in table.notes


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
    [opened] = table.opened
    assert "answer from chat messages 2, answer from object with one text 1" in opened
    assert table.of("q0").input == "?"


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


# --- what says whether an answer is right, and whose fault a failure is


def test_columns__success_and_failure_judge_where_nothing_else_does(tmp_path: Path) -> None:
    rows = [{"task": f"t{n}", "answer": "x", "status": "success"} for n in range(3)]
    rows.append({"task": "t3", "answer": "x", "status": "failed"})
    table = read_rows(tmp_path, *rows)
    assert table.columns["passed"] == "status"
    assert [trace.scores["TASK_PASSED"] for trace in table.traces] == [1.0, 1.0, 1.0, 0.0]
    # Beside an expected answer it may say whether the call ended, and would hide what the answers are worth.
    beside = read_rows(tmp_path, *({**row, "expected": "y"} for row in rows))
    assert "passed" not in beside.columns
    assert any("passed=status" in note for note in beside.notes)
    # Calls that all ended are no results that all passed.
    assert "passed" not in read_rows(tmp_path, *rows[:3]).columns


@pytest.mark.parametrize(
    ("header", "yes", "no"),
    [
        ("标准答案,模型回答,是否正确", "正确", "错误"),
        ("模範解答,回答,正誤", "○", "×"),
        ("정답,답변,정답여부", "예", "아니오"),
        ("Ожидаемый ответ,Ответ,Верно", "да", "нет"),
        ("Risposta attesa,Risposta,Corretto", "VERO", "FALSO"),
        ("oczekiwana odpowiedź,odpowiedź modelu,poprawna", "PRAWDA", "FAŁSZ"),
        ("beklenen cevap,model cevabı,doğru", "DOĞRU", "YANLIŞ"),
        ("verwacht antwoord,antwoord,goed", "WAAR", "ONWAAR"),
        ("forventet svar,svar,korrekt", "SAND", "FALSK"),
        ("expected,answer,passed", "ИСТИНА", "ЛОЖЬ"),
        ("expected,answer,passed", "ΑΛΗΘΗΣ", "ΨΕΥΔΗΣ"),
        ("expected,answer,success", "successful", "failure"),
    ],
)
def test_columns__whether_an_answer_is_right_in_other_languages(
    tmp_path: Path, header: str, yes: str, no: str
) -> None:
    expected, answer, passed = header.split(",")
    rows = f"id,{header}\n1,a,a,{yes}\n2,a,b,{no}\n"
    table = import_path(write_file(tmp_path / "a.csv", rows))
    columns = (table.columns["expected"], table.columns["output"], table.columns["passed"])
    assert columns == (expected, answer, passed)
    assert [trace.scores["TASK_PASSED"] for trace in table.traces] == [1.0, 0.0]


def test_columns__status_of_http_and_flags_of_errors(tmp_path: Path) -> None:
    rows = "id,answer,status_code\n1,a,200\n2,,503\n3,,429\n"
    table = import_path(write_file(tmp_path / "a.csv", rows))
    outcomes = [trace.outcome for trace in table.traces]
    assert outcomes == [TraceOutcome.SCORED, TraceOutcome.INFRA_ERROR, TraceOutcome.INFRA_ERROR]
    flags = import_path(write_file(tmp_path / "b.csv", "id,answer,is_error\n1,a,False\n2,,True\n"))
    assert [trace.outcome for trace in flags.traces] == [
        TraceOutcome.SCORED,
        TraceOutcome.AGENT_ERROR,
    ]


def test_columns__errors_of_spreadsheets_are_missing_values(tmp_path: Path) -> None:
    # More than a few, because they are no other content than numbers.
    cells = ["#WERT!", "#¡VALOR!", "#NV", "#DIV/0!", "#N/D", "3", "4"]
    rows = "id,answer,judge_score\n" + "".join(f"{n},x,{cell}\n" for n, cell in enumerate(cells))
    table = import_path(write_file(tmp_path / "a.csv", rows))
    scores = [trace.scores.get("judge_score") for trace in table.traces]
    assert scores == [None, None, None, None, None, 3.0, 4.0]


@pytest.mark.parametrize(
    "scores",
    [
        {"tone": {"score": 0.5, "reason": "curt"}, "facts": {"value": 1}},
        [{"name": "tone", "score": 0.5}, {"metric": "facts", "value": True}],
    ],
)
def test_scores__with_their_explanations(tmp_path: Path, scores: Any) -> None:
    table = read_rows(tmp_path, {"id": 1, "answer": "x", "scores": scores})
    assert table.of("1").scores == {"tone": 0.5, "facts": 1.0}
