"""Evaluators of answers."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.harness.judge import JudgeError, read_score
from mosaico.harness.mcp.config import EvaluatorConfig
from mosaico.harness.mcp.evaluator_registry import (
    EVALUATORS,
    Evaluator,
    EvaluatorEvidence,
    evaluate,
    load_evaluators,
    select_check,
    validate_evaluator,
    warn_evaluator,
)
from mosaico.harness.mcp.evaluators.number import numbers_in
from mosaico.harness.mcp.types import Evaluation
from tests.support.mcp_results import tool_call


@pytest.fixture(autouse=True, scope="module")
def _evaluators() -> None:
    load_evaluators()


async def nobody(model: str, system: str, prompt: str) -> str:
    raise AssertionError("no judge is to be asked")


def judged(response: str, *, error: str | None = None, **spec: Any) -> tuple[Evaluation, ...]:
    evidence = EvaluatorEvidence(response=response, error=error)
    return asyncio.run(evaluate(EvaluatorConfig(**spec), evidence, nobody))


def passes(response: str, expected: Any) -> bool:
    return all(evaluation.passed for evaluation in judged(response, expected=expected))


def test_contains__is_case_sensitive() -> None:
    assert passes("It is Paris.", "Paris")
    assert not passes("It is paris.", "Paris")


@pytest.mark.parametrize(
    "answer",
    ["42", "It is 42.", "42%", "$42", "(42)", "**42**", "42.0", "a=42,b=1", "[1,42,200]", "4.2e1",
     '{"n":42}', "[100,42]", "answer:42", "4_2? no, 42", "10-42",
     "42ms", "42 km", "42GB", "42GB/s", "42°C", "42µs", "_42_", "__42__", "[42px]", "_42ms_"],
)  # fmt: skip
def test_number__separate_number_is_found(answer: str) -> None:
    assert passes(answer, 42)


@pytest.mark.parametrize(
    "answer", ["142", "420", "42.5", "-42", "4.42", "v42", "42nd", "10:42", "1.42.3",
               "1,042", "0x42", "4,2", "", "item_42", "item__42", "42_items", "42_000", "42ab9f",
               "42ms_total", "142ms", "42.5GB", "42nd_"],
)  # fmt: skip
def test_number__part_of_another_number_is_not_found(answer: str) -> None:
    assert not passes(answer, 42)


@pytest.mark.parametrize(
    "answer",
    ["1 042", "1\u00a0042 km", "about 1\u202f042.", "1\u2009042", "it costs $1 042", "[1 042]"],
)
def test_number__spaces_group_thousands(answer: str) -> None:
    assert passes(answer, 1042)
    assert not passes(answer, 42)
    assert not passes(answer, 1)


def test_number__spaces_between_other_numbers_separate_them() -> None:
    assert passes("-12 345 678.5", -12345678.5)
    # One number or three: nothing says which.
    assert passes("100 200 300", 200)
    assert passes("100 200 300", 100200300)
    assert not passes("100 200 300", 200300)
    # Neither of these is grouped by thousands.
    assert not passes("2024 100", 2024100)
    assert not passes("1 0422", 10422)
    assert not passes("10:30 100", 30100)
    assert not passes("1 042 17", 1042)


@given(number=st.integers(-(10**12), 10**12), digit=st.integers(1, 9))
def test_number__any_integer_in_prose_but_not_after_a_digit(number: int, digit: int) -> None:
    assert passes(f"the result is {number}, as said", number)
    assert not passes(f"{digit}{abs(number)}", abs(number))


@given(st.text())
def test_number__any_text_has_finite_numbers(text: str) -> None:
    assert all(number.is_finite() for number in numbers_in(text))


def test_literal__booleans_are_spelled_as_in_json() -> None:
    assert passes('{"ok": true}', True)
    assert not passes("True", True)
    # A word that ends in "true".
    assert not passes("untrue", True)


def test_expected_list__all_elements_must_match() -> None:
    evaluations = judged("a and 7", expected=["a", 7, {"regex": r"b\b"}])
    assert [(evaluation.type, evaluation.passed) for evaluation in evaluations] == [
        ("contains", True),
        ("number", True),
        ("regex", False),
    ]


def test_regex__match_and_expected_non_match() -> None:
    assert passes("HTTP 200 OK", {"regex": r"HTTP \d{3}"})
    [unwanted] = judged("no error here", regex="error", expect_match=False)
    assert unwanted.passed is False
    [absent] = judged("all is well", regex="error", expect_match=False)
    assert absent.passed is True


def test_regex__time_is_linear_in_the_answer() -> None:
    # With backtracking this pattern takes practically endless; RE2 reads the text once.
    assert not passes("a" * 200_000, {"regex": "(a+)+$x"})


def test_fields__values_must_match_and_extra_keys_are_allowed() -> None:
    answer = (
        'Here you are:\n```json\n{"city": "Oslo", "days": [{"t": 3.0, "x": 1}], "ok": true}\n```'
    )
    assert passes(answer, {"city": "Oslo", "days": [{"t": 3}]})
    assert passes(answer, {"city": {"regex": "^Os"}})
    [wrong] = judged(answer, expected={"days": [{"t": 4}]})
    assert (wrong.passed, wrong.reason) == (False, "/days/0/t is 3.0, not 4")
    [missing] = judged(answer, expected={"country": "no"})
    assert missing.reason == "/country is missing"
    # In Python `True == 1`; in JSON they are two types.
    assert not passes(answer, {"ok": 1})
    assert not passes("city: Oslo", {"city": "Oslo"})


def test_expect_error__error_text_is_evaluated_like_an_answer() -> None:
    [evaluation] = judged("", error="timed out after 3 s", expect_error=True, expected="timed out")
    assert evaluation.passed is True
    [other] = judged("", error="connection refused", expect_error=True, expected=["timed out"])
    assert other.passed is False
    [alone] = judged("", error="connection refused", expect_error=True)
    assert alone.passed is True
    [none] = judged("all went well", expect_error=True, expected="well")
    assert (none.passed, none.reason) == (False, "an error was expected, but none occurred")


def finds(check: str, expected: Any) -> tuple[bool | None, str]:
    """The outcome of a check of three calls: a/get with 1, b/put, a/get with 2."""
    calls = [
        replace(tool_call(server, tool), arguments=arguments)
        for server, tool, arguments in (
            ("a", "get", {"n": 1}),
            ("b", "put", {}),
            ("a", "get", {"n": 2}),
        )
    ]
    evidence = EvaluatorEvidence(response="", tool_calls=calls)
    [evaluation] = asyncio.run(
        evaluate(EvaluatorConfig(checks={check: expected}), evidence, nobody)
    )
    return evaluation.passed, evaluation.reason


def test_called__lists_tools_that_were_never_called() -> None:
    assert finds("called", "get") == (True, "called")
    assert finds("called", ["a/get", "put"]) == (True, "called")
    assert finds("called", ["get", "b/get"]) == (False, "never called: b/get")


def test_order__tools_must_be_called_in_order() -> None:
    assert finds("order", ["get", "put", "get"]) == (True, "called in this order")
    assert finds("order", ["get", "get"]) == (True, "called in this order")
    assert finds("order", ["put", "get", "get"]) == (False, "no call of get after get")


def test_called_with__arguments_must_be_included() -> None:
    def given(**arguments: Any) -> tuple[bool | None, str]:
        return finds("called_with", {"tool": "get", "arguments": arguments})

    assert given(n=1) == (True, "called with these arguments")
    assert given() == (True, "called with these arguments")
    assert given(n=3) == (False, "in the last call /n is 2, not 3")
    assert finds("called_with", {"tool": "x", "arguments": {}}) == (False, "never called: x")


def test_judge__prompt_holds_answer_and_expected_value() -> None:
    requests = []

    async def ask(model: str, system: str, prompt: str) -> str:
        requests.append((model, system, prompt))
        return 'Well.\n{"score": 80, "reason": "nearly"} and more'

    spec = EvaluatorConfig(
        prompt="Is {response} right? Expected: {expected} {other}",
        model="j",
        min_score=75,
        expected="four",
    )
    # A placeholder in the answer must stay as the model wrote it.
    evaluations = asyncio.run(evaluate(spec, EvaluatorEvidence(response="{expected}"), ask))
    # `expected` is the reference of the judge only: the answer does not contain "four".
    assert [
        (evaluation.type, evaluation.passed, evaluation.score) for evaluation in evaluations
    ] == [("judge", True, 0.8)]
    [(model, system, prompt)] = requests
    assert (model, prompt) == ("j", "Is {expected} right? Expected: four {other}")
    assert "to 100 (fully)" in system


def test_judge__form_of_the_specification_is_judged_by_the_model_alone() -> None:
    prompts = []

    async def ask(model: str, system: str, prompt: str) -> str:
        prompts.append(prompt)
        return '{"score": 50, "reason": "half"}'

    rubric = EvaluatorConfig(
        prompt="Is {response} like {expected}?", model="j", min_score=50, expected="polite, short"
    )
    # One point above the score of the judge.
    without = EvaluatorConfig(prompt="Is {response} like [{expected}]?", model="j", min_score=51)
    for spec, passed in ((rubric, True), (without, False)):
        [evaluation] = asyncio.run(evaluate(spec, EvaluatorEvidence(response="Hi."), ask))
        assert (evaluation.type, evaluation.passed) == ("judge", passed)
        assert list(validate_evaluator(spec)) == []
    assert prompts == ["Is Hi. like polite, short?", "Is Hi. like []?"]
    assert list(warn_evaluator(rubric)) == []
    [warning] = warn_evaluator(without)
    assert "which is empty without expected" in warning


def test_judge__regex_is_evaluated_beside_it() -> None:
    async def ask(model: str, system: str, prompt: str) -> str:
        return '{"score": 90}'

    spec = EvaluatorConfig(prompt="{response}", model="j", min_score=50, regex="b", expected="x")
    evaluations = asyncio.run(evaluate(spec, EvaluatorEvidence(response="a"), ask))
    assert [(evaluation.type, evaluation.passed) for evaluation in evaluations] == [
        ("judge", True),
        ("regex", False),
    ]


@pytest.mark.parametrize(
    ("scale", "score", "passed"),
    [(100, 0, False), (100, 49, False), (100, 50, True), (1, 0.4, False), (1, 0.5, True)],
)
def test_judge__threshold_is_half_of_the_scale_by_default(
    scale: int, score: float, passed: bool
) -> None:
    async def ask(model: str, system: str, prompt: str) -> str:
        return json.dumps({"score": score, "reason": "r"})

    spec = EvaluatorConfig.model_validate(
        {"prompt": "{response} {expected}", "expected": "x", "model": "j", "scale": scale}
    )
    [evaluation] = asyncio.run(evaluate(spec, EvaluatorEvidence(response="y"), ask))
    assert (evaluation.passed, evaluation.score) == (passed, score / scale)
    assert list(validate_evaluator(spec)) == []


@pytest.mark.parametrize(
    ("answer", "scale", "score"),
    [
        ('{"score": 0, "reason": ""}', 100, 0),
        ('{"a": 1} {"score": 7.5}', 100, 7.5),
        ("I give it 8/10.", 100, 80),
        ("8 / 10", 1, 0.8),
        ("{not json} 10/10", 100, 100),
    ],
)
def test_judge__score_is_parsed(answer: str, scale: int, score: float) -> None:
    assert read_score(answer, scale).score == pytest.approx(score)


@pytest.mark.parametrize(
    "answer",
    ["", "good", '{"score": "80"}', '{"score": true}', '{"score": 101}', '{"score": -1}',
     # The braces are nested deeper than the recursion limit of Python.
     '{"score": NaN}', "11/10", "8/100", "{" * 5000],
)  # fmt: skip
def test_judge__answer_without_score_is_a_judge_error(answer: str) -> None:
    with pytest.raises(JudgeError):
        read_score(answer, 100)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"prompt": "{response}"}, "a judge prompt needs a model"),
        ({"prompt": "Is it {expected}?", "model": "m", "expected": "a"}, "lacks the answer"),
        ({"expected": "a", "min_score": 3}, "min_score needs a judge"),
        ({"expected": "a", "model": "m"}, "a judge model needs a prompt"),
        ({"prompt": "p", "model": "m", "scale": 1, "min_score": 80}, "outside the scale"),
        ({"expected": " "}, "matches every answer"),
        ({"regex": "(?=a)"}, "look-around is not supported"),
        ({"expected": [{"regex": "("}]}, "is invalid"),
        ({"expected": [{"rgex": "a"}]}, "write a pattern as {regex: …}"),
        ({"expected": {}}, "an empty mapping matches every JSON object"),
        ({"expected": [["a"]]}, "a list inside the list"),
        ({}, "the evaluator is empty"),
        ({"checks": {"nobody": 1}}, "unknown evaluator 'nobody'"),
        ({"checks": {"called": [1]}}, "the names of at least 1 tools"),
        ({"checks": {"order": ["a"]}}, "the names of at least 2 tools"),
        ({"checks": {"called_with": {"tool": "a"}}}, "written as {tool: …, arguments: {…}}"),
        ({"checks": {"called_with": {"tool": "a", "arguments": []}}}, "a mapping of arguments"),
    ],
)
def test_validate_evaluator__unusable_configuration_is_reported(
    spec: dict[str, Any], message: str
) -> None:
    assert any(message in text for text in validate_evaluator(EvaluatorConfig(**spec)))


def test_validate_evaluator__valid_configuration_has_no_errors() -> None:
    sound = EvaluatorConfig(expected=["a", 1, {"regex": "b"}], prompt="{response}", model="m")
    assert list(validate_evaluator(sound)) == []
    assert list(validate_evaluator(EvaluatorConfig(expect_error=True))) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


# A mapping with the only key `regex` is a pattern, and an empty mapping is refused.
@given(st.dictionaries(st.text().filter(lambda key: key != "regex"), JSON, min_size=1, max_size=3))
def test_fields__any_mapping_matches_its_own_json(value: Any) -> None:
    assert "regex" in json.dumps(value) or passes(f"so: {json.dumps(value)}.", value)


def test_evaluate__exception_of_a_plugin_is_a_judge_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(expected: Any, evidence: EvaluatorEvidence) -> Any:
        raise IndexError(f"{expected} of {evidence.response}")

    criterion = Evaluator(summary="s", select=select_check("broken"), evaluate=find)
    # A copy: what is registered stays for the whole process.
    monkeypatch.setattr(EVALUATORS, "_items", {**EVALUATORS._items, "broken": criterion})
    with pytest.raises(JudgeError, match="the evaluator broken failed: IndexError: 1 of x"):
        judged("x", checks={"broken": 1})
