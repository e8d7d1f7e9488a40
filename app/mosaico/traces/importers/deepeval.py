"""Test runs of DeepEval, as JSON: single-turn and conversational test cases.

A metric that failed has no score: the score is missing, and the answer stays an answer. The file
`.deepeval/.latest_test_run.json` holds a test run, or a link to it where DeepEval was logged in.
Names such as `test_case_3` are positions: these cases are paired by their input. Source: deepeval 4.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic.alias_generators import to_camel

from mosaico.traces.files.cell_values import as_number
from mosaico.traces.files.ignored_fields import IgnoredFields, describe_ignored
from mosaico.traces.files.import_file import Container, ImportFile
from mosaico.traces.files.imported_values import (
    TrialCounter,
    amount_of,
    model_tags,
    object_of,
    objects_of,
    text_of,
)
from mosaico.traces.files.importer_registry import IMPORTERS, ImportedTraces, Importer
from mosaico.traces.files.limited_file import InvalidImport
from mosaico.traces.storable_traces import id_of, short_id
from mosaico.traces.types import ToolCall, Trace
from mosaico.traces.value_text import TextRole

MILLISECONDS: Final = 1000.0
CASE_LISTS: Final = frozenset({"testCases", "conversationalTestCases"})
WRAPPERS: Final = ("testRunData", "testRunLink")
DEFAULT_NAME: Final = re.compile(r"(?:conversational_)?test_case_\d+")
CASE_FIELDS: Final = (
    "name", "input", "expectedOutput", "actualOutput", "turns", "scenario", "expectedOutcome",
    "toolsCalled", "metricsData", "metricsMetadata", "success", "tokenCost", "completionTime", "tags", "metadata",
    # Of the run and of its judges.
    "order", "runDuration", "evaluationCost", "conversational", "multimodal", "index",
)  # fmt: skip


def recognizes_deepeval(file: ImportFile) -> bool:
    """Return whether a document has test cases of DeepEval."""
    if file.container is not Container.JSON:
        return False
    document = object_of(file.document)
    run = _run_of(file.document)
    return isinstance(run.get("testCases"), list) or bool(
        {"conversationalTestCases", *WRAPPERS} & {*run, *document}
    )


def read_deepeval(file: ImportFile, _: Mapping[str, str]) -> ImportedTraces:
    """The traces of a test run. Raises: `InvalidImport` for a file that only refers to one."""
    document = _run_of(file.document)
    if CASE_LISTS.isdisjoint(document):
        raise InvalidImport(
            f"{file.name}: no results in this file, only a link to them: DeepEval was logged in to its cloud; log"
            " out (deepeval logout) and run again, or set DEEPEVAL_RESULTS_FOLDER"
        )
    cases = [
        *objects_of(document.get("testCases")),
        *map(_as_single_turn, objects_of(document.get("conversationalTestCases"))),
    ]
    model = object_of(document.get("hyperparameters")).get("model")
    failed = sum(bool(metric.get("error")) for case in cases for metric in _metrics(case))
    notes = [f"scores that are missing because the metric failed: {failed}"] if failed else []
    ignored, ignored_metadata = IgnoredFields(CASE_FIELDS), IgnoredFields(["topic"], "metadata.")
    for case in cases:
        ignored.check(case)
        ignored_metadata.check(object_of(case.get("metadata")))
    notes += describe_ignored("fields of test cases", ignored, ignored_metadata)
    return ImportedTraces(
        traces=_traces(cases, model, notes), notes=notes, directions=_directions(cases)
    )


def _run_of(document: Any) -> Mapping[str, Any]:
    """The test run itself: alone, inside the file of the latest run, or as the results of `evaluate()` with the names of Python."""
    results = document if isinstance(document, list) else object_of(document).get("test_results")
    cases = objects_of(results)
    if cases and "metrics_data" in cases[0]:
        return {"testCases": [_in_camel_case(case) for case in cases]}
    run = object_of(document).get("testRunData")
    return run if isinstance(run, dict) else object_of(document)


def _in_camel_case(case: Mapping[str, Any]) -> Mapping[str, Any]:
    metrics = objects_of(case.get("metrics_data"))
    return {**{to_camel(name): value for name, value in case.items()}, "metricsData": metrics}


def _traces(cases: list[Mapping[str, Any]], model: Any, notes: list[str]) -> Iterator[Trace]:
    trials = TrialCounter()
    for case in cases:
        item = _item(case)
        trial = trials.next_trial(item)
        calls = case.get("toolsCalled")
        yield Trace(
            trace_id=short_id(f"{item}#{trial}"),
            item_id=item,
            trial=trial,
            input=text_of(case.get("input"), TextRole.QUESTION),
            expected_output=text_of(case.get("expectedOutput")),
            output=text_of(case.get("actualOutput")) or "",
            tags=(*_tags(case), *model_tags(model)),
            # A test case has no tokens that would show that 0 is known.
            cost_usd=amount_of(case.get("tokenCost")) or None,
            latency_ms=amount_of(case.get("completionTime"), MILLISECONDS),
            tool_calls=None if calls is None else tuple(map(_tool_call, objects_of(calls))),
            scores=_scores(case),
        )
    if repeated := trials.describe():
        notes.append(f"test cases of the same item are its trials: {repeated}")


def _item(case: Mapping[str, Any]) -> str:
    name = case.get("name")
    question = text_of(case.get("input"), TextRole.QUESTION)
    if question and (not name or DEFAULT_NAME.fullmatch(str(name))):
        return id_of(question)
    return short_id(str(name))


def _as_single_turn(case: Mapping[str, Any]) -> Mapping[str, Any]:
    """A conversation as its first message of the user and its last answer."""
    turns = objects_of(case.get("turns"))
    messages = {
        role: [turn.get("content") for turn in turns if turn.get("role") == role]
        for role in ("user", "assistant")
    }
    expected = case.get("expectedOutcome")
    return {
        **case,
        "input": next(iter(messages["user"]), case.get("scenario")),
        "actualOutput": next(reversed(messages["assistant"]), None),
        "expectedOutput": expected,
    }


def _tags(case: Mapping[str, Any]) -> tuple[str, ...]:
    tags = case.get("tags")
    topic = object_of(case.get("metadata")).get("topic")
    return (
        *(str(tag) for tag in (tags if isinstance(tags, list) else ())),
        *((f"category:{topic}",) if isinstance(topic, str) else ()),
    )


def _tool_call(call: Mapping[str, Any]) -> ToolCall:
    return ToolCall(name=str(call.get("name")), arguments=object_of(call.get("inputParameters")))


def _metrics(case: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The metrics of a case; before version 1 they had another name."""
    return objects_of(case.get("metricsData") or case.get("metricsMetadata"))


def _name(metric: Mapping[str, Any]) -> str:
    return str(metric.get("name") or metric.get("metric"))


def _directions(cases: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The better direction of each metric, from the side of its threshold on which it succeeds."""
    sides: dict[str, set[str]] = {}
    for metric in (metric for case in cases for metric in _metrics(case)):
        score, threshold = as_number(metric.get("score")), as_number(metric.get("threshold"))
        success = metric.get("success")
        if metric.get("error") or score is None or threshold is None or success is None:
            continue
        # On the threshold both directions succeed.
        if score != threshold:
            side = "higher" if (score > threshold) == bool(success) else "lower"
            sides.setdefault(_name(metric), set()).add(side)
    return {name: next(iter(found)) for name, found in sides.items() if len(found) == 1}


def _scores(case: Mapping[str, Any]) -> dict[str, float]:
    """The scores by metric; pass or fail unless a metric failed to decide it."""
    scores = {
        _name(metric): number
        for metric in _metrics(case)
        if not metric.get("error") and (number := as_number(metric.get("score"))) is not None
    }
    if case.get("success") is not None and not any(m.get("error") for m in _metrics(case)):
        scores["TASK_PASSED"] = float(bool(case["success"]))
    return scores


IMPORTERS.register(
    "deepeval",
    Importer(summary="test run of DeepEval", recognizes=recognizes_deepeval, read=read_deepeval),
)
