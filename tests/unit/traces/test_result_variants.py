"""Small files in the forms in which people keep their results: what each is read as, decided before the reader ran."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from mosaico.core.errors import AppError
from mosaico.traces.files.read_options import ReadOptions
from mosaico.traces.types import Trace
from tests.support.import_files import Imported, import_path

# By name of a fact of a trace: how a test writes it.
FACTS: Final[Mapping[str, Callable[[Trace], Any]]] = {
    "item": lambda trace: trace.item_id,
    "out": lambda trace: trace.output,
    "gold": lambda trace: trace.expected_output,
    "any": lambda trace: trace.expected_any,
    "in": lambda trace: trace.input,
    "scores": lambda trace: dict(trace.scores),
    "end": lambda trace: str(trace.outcome),
    "error": lambda trace: trace.error,
    "trial": lambda trace: trace.trial,
}
Facts = Mapping[str, Any]
ROWS: Final = [
    {"id": "a", "question": "q1", "answer": "Paris", "gold": "Paris"},
    {"id": "b", "question": "q2", "answer": "Rome", "gold": "Rom"},
]
READ: Final[list[Facts]] = [
    {"item": "a", "out": "Paris", "gold": "Paris"},
    {"item": "b", "out": "Rome"},
]
OTHERS: Final = [{**row, "id": f"{row['id']}2", "question": f"{row['id']}?"} for row in ROWS]


def read(folder: Path, name: str, content: Any, options: ReadOptions | None = None) -> Imported:
    path = folder / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, str):
        path.write_text(content, encoding="utf-8")
    elif name.endswith(".jsonl"):
        path.write_text("".join(f"{json.dumps(row)}\n" for row in content))
    else:
        path.write_text(json.dumps(content))
    return import_path(path, None, options or ReadOptions())


def facts(traces: Sequence[Trace], wanted: Sequence[Facts]) -> list[Facts]:
    """The facts of the traces that a test names."""
    return [
        {name: FACTS[name](trace) for name in of_trace}
        for trace, of_trace in zip(traces, wanted, strict=True)
    ]


def csv(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


# A document, and its rows or the error.
DOCUMENTS: Final[Mapping[str, tuple[Any, list[Facts] | str]]] = {
    "one level deeper": ({"results": {"items": ROWS}}, READ),
    "two levels deeper": ({"run": {"out": {"cases": ROWS}}, "model": "m"}, READ),
    "beside settings": ({"model": "m", "seed": 1, "predictions": ROWS}, READ),
    "inside of an output": ({"experiment": {"name": "e"}, "output": {"rows": ROWS}}, READ),
    "beside questions": ({"items": [{"id": "a", "question": "q"}], "results": ROWS}, READ),
    "beside means": ({"summary": [{"metric": "em", "score": 0.5}], "cases": ROWS}, READ),
    "by category": (
        {"math": ROWS, "code": OTHERS},
        [*READ, {"item": "a2", "out": "Paris"}, {"item": "b2", "out": "Rome"}],
    ),
    "by verdict": ({"passed": ROWS[:1], "failed": ROWS[1:]}, READ),
    "two runs": ({"baseline": ROWS, "candidate": ROWS}, "the same items in several lists"),
    "trials by id": (
        {"q1": [{"answer": "a"}, {"answer": "b"}], "q2": [{"answer": "c"}]},
        [{"item": "q1", "trial": 0}, {"item": "q1", "trial": 1}, {"item": "q2", "out": "c"}],
    ),
    "one result with details": (
        {"id": 1, "question": "q", "answer": "a", "contexts": [{"text": "t", "score": 0.1}]},
        [{"item": "1", "out": "a", "scores": {}}],
    ),
    "scores by id": (
        {"q1": 0.5, "q2": 0.75},
        [{"item": "q1", "scores": {"TASK_SCORE": 0.5}}, {"scores": {"TASK_SCORE": 0.75}}],
    ),
    "verdicts by id": ({"q1": True, "q2": False}, [{"scores": {"TASK_PASSED": 1.0}}, {"item": "q2"}]),
    "means alone": ({"accuracy": 0.5, "f1": 0.75}, "one number for each metric"),
    "no rows": ({"results": [], "model": "m"}, "no results in this file"),
    "an empty list": ([], "no results in this file"),
    "pandas split by id": (
        {"index": ["k1", "k2"], "columns": ["answer", "gold"], "data": [["x", "x"], ["y", "z"]]},
        [{"item": "k1", "out": "x"}, {"item": "k2", "gold": "z"}],
    ),
    "pandas table by id": (
        {"schema": {"primaryKey": ["k"]}, "data": [{"k": "k1", "answer": "x", "gold": "y"}]},
        [{"item": "k1", "out": "x", "gold": "y"}],
    ),
    "predictions by their own id": (
        {"a__1": {"instance_id": "a__1", "model_patch": "d"}, "b__2": {"instance_id": "b__2", "model_patch": "e"}},
        [{"item": "a__1", "out": "d"}, {"item": "b__2", "out": "e"}],
    ),
}  # fmt: skip


def test_generations__of_one_cell_are_trials_whatever_its_row_numbers(tmp_path: Path) -> None:
    imported = read(tmp_path, "a.json", [{"id": "a", "generations": ["x", "y"], "trial": 3}])
    assert [(t.trial, t.output) for t in imported.traces] == [(0, "x"), (1, "y")]
    assert any("are its trials" in note for note in imported.notes)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_document__rows_are_found_wherever_they_stand(name: str, tmp_path: Path) -> None:
    document, wanted = DOCUMENTS[name]
    if isinstance(wanted, str):
        with pytest.raises(AppError, match=wanted):
            read(tmp_path, "a.json", document)
    else:
        assert facts(read(tmp_path, "a.json", document).traces, wanted) == wanted


CALL: Final = {"id": "1", "type": "function", "function": {"name": "find", "arguments": '{"a": 1}'}}
ANSWERS: Final[Mapping[str, tuple[Any, Facts]]] = {
    "an error alone": ({"error": "boom"}, {"out": None, "end": "agent_error", "error": "boom"}),
    "an error of a provider": (
        {"error": "RateLimitError: slow", "traceback": "…"},
        {"out": None, "end": "infra_error"},
    ),
    "an error with a code": (
        {"error": {"code": 429, "message": "slow"}, "output": None},
        {"end": "infra_error"},
    ),
    "a list with an error": ([{"error": "boom"}], {"end": "agent_error", "out": None}),
    "a state with a message": ({"status": "error", "message": "no"}, {"error": "no"}),
    "success is false": ({"success": False, "error": "bad"}, {"error": "bad"}),
    "an error without a message": ({"error": True}, {"error": "an error without a message"}),
    "no error beside an answer": ({"error": None, "answer": "x"}, {"out": "x", "end": "scored"}),
    "an answer beside an error": ({"error": "late", "answer": "x"}, {"out": "x", "error": None}),
    "tool calls": ([CALL], {"out": "", "end": "scored"}),
    "a text beside a tool call": (
        [{"type": "text", "text": "wait"}, {"type": "tool_use", "name": "find", "input": {}}],
        {"out": "wait"},
    ),
    "details of a server": ({"generated_text": "x", "details": {"seed": 1}}, {"out": "x"}),
    "IDs beside a text": ({"text": "x", "generation_id": "g", "created_at": "t"}, {"out": "x"}),
    "a structure": ({"answer": "x", "unit": "kg"}, {"out": '{"answer": "x", "unit": "kg"}'}),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answer__errors_are_errors_and_texts_are_texts(name: str, tmp_path: Path) -> None:
    answer, wanted = ANSWERS[name]
    rows = [{**row, "answer": answer} for row in ROWS]
    traces = read(tmp_path, "a.jsonl", rows).traces
    assert facts(traces, [wanted, wanted]) == [wanted, wanted]


@pytest.mark.parametrize("value", [{"error": "not found"}, [CALL]], ids=["error", "tool calls"])
def test_answer__structure_is_compared_with_an_expected_structure(
    tmp_path: Path, value: Any
) -> None:
    traces = read(
        tmp_path, "a.jsonl", [{"id": n, "answer": value, "gold": value} for n in "ab"]
    ).traces
    assert [(t.output, str(t.outcome)) for t in traces] == [
        (t.expected_output, "scored") for t in traces
    ]
    assert json.loads(traces[0].output or "") == value


def test_references__objects_with_a_text_are_alternatives_or_a_question(tmp_path: Path) -> None:
    texts = [{"text": "a"}, {"text": "b"}]
    row = {"id": "1", "answer": "b", "references": texts}
    assert read(tmp_path, "a.json", [row]).traces[0].expected_any == ("a", "b")
    row = {"id": "1", "answer": "b", "expected": texts}
    with pytest.raises(AppError, match="is one of them enough"):
        read(tmp_path, "b.json", [row])


TABLES: Final[Mapping[str, tuple[Any, list[Facts] | str]]] = {
    "a comma at the end of each row": (
        csv("id,answer,gold", "1,a,b,", "2,c,d,"),
        [{"item": "1", "gold": "b"}, {"out": "c"}],
    ),
    "a further cell": (csv("id,answer,gold", "1,a,b,x", "2,c,d,y"), "4 cells, but the header has 3"),
    "numbers that spreadsheets guard": (
        csv("id,answer,gold", '="007",="""x""",x', '="008",y,y'),
        [{"item": "007"}, {"item": "008", "out": "y"}],
    ),
    "a chat that pandas wrote": (
        csv("id,messages,gold", "1,\"[{'role': 'user', 'content': 'q'}, {'role': 'assistant', 'content': 'a'}]\",a"),
        [{"out": "a", "in": "q", "gold": "a"}],
    ),
    "an unknown name": (csv("id,question,GPT-4o,gold", "1,q,It is a.,a", "2,r,No idea.,b"), "--map output=GPT-4o"),
    "a name with a blank": (
        csv("id,Bot A answer,Bot B answer", "1,a,b"),
        "--map 'output=Bot A answer'",
    ),
    "Portuguese": (csv("id,resposta_do_modelo,resposta_correta", "1,a,b"), [{"out": "a", "gold": "b"}]),
    "Turkish": (csv("id,model cevabı,doğru cevap", "1,a,b"), [{"out": "a", "gold": "b"}]),
    "Arabic": (csv("id,إجابة النموذج,الإجابة الصحيحة", "1,a,b"), [{"out": "a", "gold": "b"}]),
    "Greek": (csv("id,απάντηση,σωστή απάντηση", "1,a,b"), [{"out": "a", "gold": "b"}]),
    "the right one": (csv("id,your_answer,right_answer", "1,a,b"), [{"out": "a", "gold": "b"}]),
    "shares beside an expected answer": (
        csv("id,answer,gold,discount", "1,a,a,0.5", "2,b,b,0.7"),
        [{"scores": {}}, {"scores": {}}],
    ),
    "shares beside a score": (
        csv("id,answer,faithfulness,alpha", "1,a,1,0.5", "2,b,0,0.7"),
        [{"scores": {"faithfulness": 1.0}}, {"scores": {"faithfulness": 0.0}}],
    ),
    "shares where nothing else judges": (
        csv("id,answer,overlay", "1,a,0.5", "2,b,0.7"),
        [{"scores": {"overlay": 0.5}}, {"scores": {"overlay": 0.7}}],
    ),
    "percentages": (
        csv("id,answer,gold,foo", "1,a,a,50 %", "2,b,b,70 %"),
        [{"scores": {"foo": 0.5}}, {"scores": {"foo": 0.7}}],
    ),
    "a third word": (
        csv("id,answer,evaluation", "1,a,correct", "2,b,partially correct", "3,c,incorrect"),
        [{"scores": {}}] * 3,
    ),
    "an empty word": (
        csv("id,answer,correct", "1,a,yes", "2,b,-", "3,c,no"),
        [{"scores": {"TASK_PASSED": 1.0}}, {"scores": {}}, {"scores": {"TASK_PASSED": 0.0}}],
    ),
    "pass or fail": (
        csv("id,answer,Pass/Fail", "1,a,Pass", "2,b,Fail"),
        [{"scores": {"TASK_PASSED": 1.0}}, {"scores": {"TASK_PASSED": 0.0}}],
    ),
    "states of calls": (
        csv("id,answer,gold,status", "1,a,a,ok", "2,,a,error", "3,,a,failed"),
        [{"end": "scored"}, {"end": "agent_error"}, {"end": "agent_error"}],
    ),
    "states of tasks": (
        csv("id,answer,gold,status", "1,a,a,success", "2,b,a,failed"),
        [{"end": "scored"}, {"end": "scored"}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_table__columns_are_what_their_names_and_values_say(name: str, tmp_path: Path) -> None:
    content, wanted = TABLES[name]
    if isinstance(wanted, str):
        with pytest.raises(AppError) as caught:
            read(tmp_path, "a.csv", content)
        assert wanted in caught.value.detail
    else:
        assert facts(read(tmp_path, "a.csv", content).traces, wanted) == wanted


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ("answer,gold,discount", "not used, because no name says that they judge: discount"),
        ("answer,discount", "read as scores, because nothing else judges: discount"),
    ],
)
def test_table__says_what_becomes_of_shares(tmp_path: Path, columns: str, sentence: str) -> None:
    texts = ",".join("a" for _ in columns.split(",")[:-1])
    imported = read(tmp_path, "a.csv", csv(f"id,{columns}", f"1,{texts},0.5", f"2,{texts},0.7"))
    assert any(sentence in line for line in imported.lines)


THOUGHTS: Final = (
    "<think>hm</think>Bern", "hm</think>\n\nBern", "<seed:think>hm</seed:think>Bern", "[THINK]hm[/THINK] Bern",
    "◁think▷hm◁/think▷Bern", "<|begin_of_thought|>hm<|end_of_thought|><|begin_of_solution|>Bern<|end_of_solution|>",
    "<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>Bern<|END_RESPONSE|>",
    "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Bern<|return|>",
)  # fmt: skip


def test_thoughts__of_every_notation_are_left_out_or_counted(tmp_path: Path) -> None:
    rows = [{"id": str(n), "answer": text, "gold": "Bern"} for n, text in enumerate(THOUGHTS)]
    stripped = read(tmp_path, "a.json", rows, ReadOptions(strip_thinking=True))
    assert [trace.output for trace in stripped.traces] == ["Bern"] * len(THOUGHTS)
    whole = read(tmp_path, "a.json", rows)
    assert any(str(len(THOUGHTS)) in line and "thoughts" in line for line in whole.lines)


def test_thoughts__of_a_hostile_answer_take_no_longer_than_its_length(tmp_path: Path) -> None:
    # A pattern that looks for the end of each beginning takes minutes.
    rows = [{"id": "a", "answer": "<think>" * 500_000, "gold": "x"}]
    [trace] = read(tmp_path, "a.json", rows, ReadOptions(strip_thinking=True)).traces
    assert trace.output == ""
