"""Columns of other people: names in several languages, signs for yes and no, errors, and rows that are no trials."""

from pathlib import Path

import pytest

from mosaico.traces.files.limited_file import InvalidImport
from mosaico.traces.files.measure_words import measured_field
from mosaico.traces.files.read_options import InvalidInfraError, ReadOptions, parse_infra_errors
from mosaico.traces.types import TraceOutcome
from tests.support.import_files import import_path, pairs, read_csv, read_rows


@pytest.mark.parametrize(
    ("header", "fields"),
    [
        (
            "编号,问题,模型回答,标准答案,得分",
            {"item": "编号", "input": "问题", "output": "模型回答", "expected": "标准答案", "scores[得分]": "得分"},
        ),
        (
            "id_pregunta,pregunta,respuesta del modelo,respuesta esperada,coste",
            {
                "item": "id_pregunta",
                "input": "pregunta",
                "output": "respuesta del modelo",
                "expected": "respuesta esperada",
                "cost": "coste",
            },
        ),
        (
            "identifiant,question,réponse générée,réponse attendue,durée (s)",
            {
                "item": "identifiant",
                "input": "question",
                "output": "réponse générée",
                "expected": "réponse attendue",
                "latencySeconds": "durée (s)",
            },
        ),
        (
            "Fall-ID,Frage,Antwort des Modells,Erwartete Antwort,Antwortzeit (ms)",
            {
                "item": "Fall-ID",
                "input": "Frage",
                "output": "Antwort des Modells",
                "expected": "Erwartete Antwort",
                "latencyMs": "Antwortzeit (ms)",
            },
        ),
    ],
)  # fmt: skip
def test_names__of_several_languages(tmp_path: Path, header: str, fields: dict[str, str]) -> None:
    rows = "k1,Q,a,a,0.5\nk2,R,b,c,0.25\n"
    assert read_csv(tmp_path, f"{header}\n{rows}").columns == fields


@pytest.mark.parametrize(
    ("column", "field"),
    [
        ("total_latency_ms", "latencyMs"),
        ("execution_duration_ms", "latencyMs"),
        ("Response Time (s)", "latencySeconds"),
        ("judge_latency_ms", None),
        ("end_time_ms", None),
        ("promptTokenCount", "inputTokens"),
        ("num_output_tokens", "outputTokens"),
        ("cached_input_tokens", None),
        ("judge_prompt_tokens", None),
        ("total_tokens", None),
        ("Kosten (USD)", "cost"),
        ("cost_eur", None),
        ("judge_cost", None),
        ("Frage-ID", "item"),
        ("session_id", None),
        ("run_id", None),
    ],
)
def test_measured_field__needs_every_word_of_a_name(column: str, field: str | None) -> None:
    assert measured_field(column) == field


def test_names__of_numbers_in_other_languages_are_no_scores(tmp_path: Path) -> None:
    table = read_csv(
        tmp_path, "id,answer,custo_juiz,Wahrscheinlichkeit\n1,x,0.5,0.7\n2,y,0.2,0.1\n"
    )
    assert table.of("1").scores == {}


@pytest.mark.parametrize(
    "signs", ["ja nein", "oui non", "sí no", "是 否", "✅ ❌", "T F", "Y N", "0 1"]
)
def test_passed__signs_of_yes_and_no(tmp_path: Path, signs: str) -> None:
    first, second = signs.split()
    table = read_csv(tmp_path, f"id,answer,passed\n1,x,{first}\n2,y,{second}\n3,z,{first}\n")
    passed = [trace.scores["TASK_PASSED"] for trace in table.traces]
    assert passed == ([0.0, 1.0, 0.0] if signs == "0 1" else [1.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("1'230.50", 1230.5),
        ("1’230.50", 1230.5),
        ("$0.0012", 0.0012),
        ("0.5 USD", 0.5),
        ("1\u202f230.5", 1230.5),
    ],
)
def test_cells__signs_of_groups_and_dollars(tmp_path: Path, cell: str, number: float) -> None:
    assert read_csv(tmp_path, f"id,answer,cost\n1,x,{cell}\n").of("1").cost_usd == number


def test_errors__may_only_be_said_to_be_there(tmp_path: Path) -> None:
    table = read_csv(
        tmp_path, "id,answer,error\n1,a,False\n2,b,0\n3,,True\n4,c,no\n5,,Server disconnected\n"
    )
    assert [trace.outcome for trace in table.traces] == [
        TraceOutcome.SCORED,
        TraceOutcome.SCORED,
        TraceOutcome.AGENT_ERROR,
        TraceOutcome.SCORED,
        TraceOutcome.INFRA_ERROR,
    ]


def test_errors__are_in_a_column_of_states(tmp_path: Path) -> None:
    rows = "id,answer,status\n1,a,ok\n2,,error\n3,,timeout\n"
    table = read_csv(tmp_path, rows)
    assert [trace.outcome for trace in table.traces] == [
        TraceOutcome.SCORED,
        TraceOutcome.AGENT_ERROR,
        TraceOutcome.TIMEOUT,
    ]
    # The message says more exactly what happened.
    row = {"id": 1, "answer": None, "status": "error", "error": "Connection reset by peer"}
    assert read_rows(tmp_path, row).of("1").outcome is TraceOutcome.INFRA_ERROR


def test_items__with_several_questions_are_said_first(tmp_path: Path) -> None:
    table = read_csv(tmp_path, "id,question,answer\n1,Q,a\n1,R,b\n2,S,c\n")
    assert "items with several questions" in table.lines[0].split("CSV table")[0]
    assert "line 3" in table.lines[0]
    trials = read_csv(tmp_path, "id,question,answer\n1,Q,a\n1,Q,b\n2,S,c\n")
    assert trials.lines[0].endswith("CSV table; item=id, output=answer, input=question")


def test_items__with_several_turns_are_said_first_whichever_row_has_one(tmp_path: Path) -> None:
    first = {"id": "1", "answer": "a", "turn": 1}
    table = read_rows(tmp_path, first, {"id": "1", "answer": "b"}, {**first, "answer": "c"})
    assert "several turns" not in table.lines[0]
    later = read_rows(
        tmp_path, first, {"id": "1", "answer": "b"}, {"id": "1", "answer": "c", "Turn": 2}
    )
    assert "items with several turns (column 'Turn')" in later.lines[0].split("JSON Lines")[0]
    assert "line 3" in later.lines[0]


def test_items__by_position_are_said_first_only_if_there_are_any(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]
    table = read_rows(tmp_path, {"messages": chat, "note": 1}, {"messages": chat, "note": 2})
    assert [(t.item_id, t.trial, t.input, t.output) for t in table.traces] == [
        ("2+2?", 0, "2+2?", "4"),
        ("2+2?", 1, "2+2?", "4"),
    ]
    assert not any("by their position" in line for line in table.lines)
    assert "by their position" in read_csv(tmp_path, "answer\nx\ny\n").lines[0]


def test_rows__of_each_metric_are_no_trials(tmp_path: Path) -> None:
    rows = "id,metric,score\n1,f1,0.5\n1,em,1\n"
    with pytest.raises(InvalidImport, match=r"a row for each metric .*'metric'.*em, f1"):
        read_csv(tmp_path, rows)
    assert len(read_csv(tmp_path, "id,metric,score\n1,f1,0.5\n2,f1,1\n").traces) == 2


def test_rows__of_sums_are_skipped(tmp_path: Path) -> None:
    # An item may be called "sum", too.
    assert len(read_csv(tmp_path, "id,question,answer\nsum,1+1?,\nmax,1 or 2?,2\n").traces) == 2
    table = read_csv(tmp_path, "id,answer,tone\n1,a,0.5\n2,b,1\nMean,,0.75\n")
    assert pairs(table.traces) == [("1", "a", None), ("2", "b", None)]
    assert table.left_out == ["rows of sums such as 'Mean' are skipped: line 4"]


def test_cells__that_a_spreadsheet_cut_are_named(tmp_path: Path) -> None:
    table = read_csv(tmp_path, f"id,answer\n1,{'x' * 32_767}\n2,y\n")
    assert table.left_out == [
        "texts of 'answer' that a spreadsheet cut at 32,767 characters: line 2"
    ]


def test_scores__minus_one_may_be_a_judge_that_failed(tmp_path: Path) -> None:
    table = read_csv(tmp_path, "id,answer,judge_score\n1,a,8\n2,b,-1\n3,c,7\n")
    assert any("−1 in 'judge_score' is read as a score" in note for note in table.notes)
    table = read_csv(tmp_path, "id,answer,judge_score\n1,a,8\n2,b,-2\n3,c,-1\n")
    assert not any("judge failed" in note for note in table.notes)


@pytest.mark.parametrize(
    "text",
    [
        "| id | answer |\n|----|:---:|\n| 1 | x |\n| 2 | y |\n",
        "id | answer\n1 | x\n2 | y\n",
        "id, answer\n1, x\n2, y\n",
        'id, answer\n1, "x"\n2, "y"\n',
    ],
)
def test_csv__blanks_and_frames_around_cells(tmp_path: Path, text: str) -> None:
    assert pairs(read_csv(tmp_path, text).traces) == [("1", "x", None), ("2", "y", None)]


def test_csv__the_delimiter_fits_the_rows(tmp_path: Path) -> None:
    # The header alone has as many commas as semicolons.
    text = "id;question, in full;answer, in short\n1;a, b;x\n2;c;y\n"
    table = read_csv(tmp_path, text, ReadOptions(mapping={"output": "answer, in short"}))
    assert pairs(table.traces) == [("1", "x", None), ("2", "y", None)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"id": 1, "answer": "a"},\n{"id": 2, "answer": "b"},\n', "remove the comma after the object"),
        ('{"id": 1, "answer": "a"}{"id": 2, "answer": "b"}\n{"id": 3, "answer": "c"}\n', "a line of its own"),
        ("\ufeff", "the file is empty"),
    ],
)  # fmt: skip
def test_json_lines__what_is_wrong(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InvalidImport, match=message):
        import_path(path)


def test_errors__are_counted_by_the_rule_that_classed_them(tmp_path: Path) -> None:
    errors = [
        "KeyError: 'a'",
        "KeyError: 'b'",
        "Server disconnected",
        "the lock of pump 7 is broken",
    ]
    rows = [{"id": str(n), "answer": None, "error": error} for n, error in enumerate(errors)]
    rows += [{"id": "9", "answer": "x", "error": None}]
    [line] = [line for line in read_rows(tmp_path, *rows).lines if "errors of the agent" in line]
    assert "2 errors of the agent: class KeyError (\"KeyError: 'a'\")" in line
    assert "1 error of the infrastructure: phrase of the network" in line
    assert "1 error of the agent: no rule" in line


def test_errors__of_the_user_are_excused(tmp_path: Path) -> None:
    rows = "id,answer,error\n1,,pump 7 is broken\n2,,KeyError: 'a'\n3,x,\n"
    options = ReadOptions(infra_errors=parse_infra_errors(["^pump \\d"]))
    table = read_csv(tmp_path, rows, options)
    assert [trace.outcome for trace in table.traces] == [
        TraceOutcome.INFRA_ERROR,
        TraceOutcome.AGENT_ERROR,
        TraceOutcome.SCORED,
    ]
    assert any(": infraErrors ^pump" in line for line in table.lines)
    with pytest.raises(InvalidInfraError, match="not a valid regular expression"):
        parse_infra_errors(["pump ("])


def test_report__counts_what_it_does_not_list(tmp_path: Path) -> None:
    rows = [
        {"id": n, "answer": "x", **{f"extra{n}-{k}": "t" for k in "abcdefghijklm"}}
        for n in range(3)
    ]
    [note] = [n for n in read_rows(tmp_path, *rows).notes if "columns that are not used" in n]
    # 3 rows with 13 names each, of which 20 are listed.
    assert note.endswith("and 19 more")
    answer = {"text": "x", **dict.fromkeys(("sources", "model", "usage", "id", "score", "role"), 1)}
    table = read_rows(tmp_path, {"id": 1, "answer": answer}, {"id": 2, "answer": answer})
    assert "answer.sources 2" in table.opened[0]
    assert "and 1 more" in table.opened[0]


def test_report__a_table_that_lost_rows_says_so_first(tmp_path: Path) -> None:
    rows = "id,answer\n" + "".join(f"{n},x\n" for n in range(18))
    lines = read_csv(tmp_path, rows + "Mean,\n").lines
    assert "1 of 19 rows are lost (5 %); CSV table" in lines[0]
    # 1 of 20 rows is not more than 5 %.
    assert "rows are lost" not in read_csv(tmp_path, rows + "19,y\nMean,\n").lines[0]


def test_input__is_the_text_that_an_agent_works_on(tmp_path: Path) -> None:
    table = read_csv(tmp_path, "source,reference,hypothesis\nHallo,Hello,Hi\nJa,Yes,Yes\n")
    assert (table.columns["input"], table.traces[0].item_id) == ("source", "Hallo")
    # The same text in two rows would make one item of both.
    table = read_csv(tmp_path, "source,reference,hypothesis\nwiki,Hello,Hi\nwiki,Yes,Yes\n")
    assert "input" not in table.columns


def test_columns__that_judge_in_words_are_not_their_reasons(tmp_path: Path) -> None:
    rows = "id,answer,rating,rating_reason\n1,x,Good,short\n2,y,Bad,long\n"
    notes = " ".join(read_csv(tmp_path, rows).notes)
    assert "--labels 'rating=Bad:NUMBER,Good:NUMBER'" in notes
    assert "rating_reason=" not in notes


def test_table__several_results_of_the_same_trial_are_said_first(tmp_path: Path) -> None:
    text = "id,trial,answer\na,0,x\na,1,y\na,1,z\nb,0,x\n"
    table = read_csv(tmp_path, text)
    assert len(table.traces) == 4
    doubts, _ = table.lines[0].split("CSV table")
    assert "same trial" in doubts
    assert "'a', trial 1" in doubts
    assert "same trial" not in read_csv(tmp_path, "id,answer\na,x\na,y\n").lines[0]
