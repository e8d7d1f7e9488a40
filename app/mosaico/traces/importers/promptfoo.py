"""Results of promptfoo: JSON (`results.results[]`) and JSON Lines.

Each prompt and provider is a column of promptfoo; one item is one test of one provider, and of one prompt where
the file has several. The number of a column is a position, which changes with `--filter-providers`. `--map
item=vars` pairs by the test alone, to compare two providers or prompts. `--repeat` leaves no mark in the file: the
same variables in the same column are trials of one item.
Source: format version 3 of promptfoo 0.121.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from mosaico.core.parameter_names import parameter_name
from mosaico.traces.error_rules import outcome_of_error
from mosaico.traces.files.cell_values import as_number
from mosaico.traces.files.ignored_fields import IgnoredFields, describe_ignored
from mosaico.traces.files.import_file import Container, ImportFile
from mosaico.traces.files.imported_values import (
    TrialCounter,
    amount_of,
    count_of,
    model_tags,
    object_of,
    objects_of,
    text_of,
)
from mosaico.traces.files.importer_registry import IMPORTERS, ImportedTraces, Importer
from mosaico.traces.reported_usage import ReportedUsage, drop_unknown_zeros
from mosaico.traces.storable_traces import id_of
from mosaico.traces.types import Trace, TraceOutcome
from mosaico.traces.value_text import TextRole

RESULT_FIELDS: Final = (
    "vars", "promptIdx", "prompt", "provider", "testCase", "response", "error", "failureReason",
    "success", "score", "namedScores", "cost", "latencyMs", "tokenUsage",
)  # fmt: skip
# `failureReason`: 0 none, 1 an assertion failed, 2 the provider or the test raised an error.
RAISED: Final = 2
# The code of the assertion itself failed: nobody judged the answer.
BROKEN_ASSERTIONS: Final = (
    "Custom function threw error", "Python code execution failed", "Ruby code execution failed",
)  # fmt: skip
# Assertions whose value is an answer, the most certain first; other values are code or rubrics.
REFERENCES: Final = (
    "equals", "similar", "levenshtein", "factuality", "rouge-n", "bleu", "meteor", "icontains",
    "contains",
)  # fmt: skip


def recognizes_promptfoo(file: ImportFile) -> bool:
    """Return whether the results have the fields of promptfoo."""
    if file.container is Container.JSON:
        document = object_of(file.document)
        return any(_is_result(result) for result in _results_of(document)[:1])
    return file.container is Container.JSON_LINES and _is_result(file.first_row)


def read_promptfoo(file: ImportFile, mapping: Mapping[str, str]) -> ImportedTraces:
    """The traces of all columns of a result file. Raises: `InvalidImport` where `item=vars` does not tell columns
    apart.
    """
    is_by_test = mapping.get("item") == "vars"
    columns = _Columns(_iter_results(file), is_by_test=is_by_test)
    if is_by_test and len(columns.names) > 1:
        names = ", ".join(sorted(set(columns.names.values())))
        file.reject(
            f"{_by_test()} needs a file with one provider and one prompt; this one has {names}"
        )
    if columns.is_ambiguous:
        file.counts.by_position = "columns with the same provider and prompt pair by position only; give the providers labels"
    notes: list[str] = []
    if not is_by_test and len(columns.names) == 1:
        notes.append(
            f"items are tests of this provider; {_by_test()} compares it with another one or another prompt"
        )
    return ImportedTraces(traces=_traces(_iter_results(file), columns, notes), notes=notes)


def _iter_results(file: ImportFile) -> Iterable[Mapping[str, Any]]:
    if file.container is Container.JSON:
        return _results_of(object_of(file.document))
    return (row.cells for row in file.rows())


class _Columns:
    """The names of the columns of a file, by number: the provider, and the prompt where there are several.

    Columns of the same name are numbered: `is_ambiguous` then. By the test alone all names are empty.
    """

    def __init__(self, results: Iterable[Mapping[str, Any]], *, is_by_test: bool) -> None:
        found = {_column_of(result): (_provider(result), _prompt(result)) for result in results}
        has_prompts = len({prompt for _, prompt in found.values()}) > 1
        self.names: dict[Any, str] = {}
        self.is_ambiguous = False
        self._is_by_test = is_by_test
        counts: Counter[str] = Counter()
        for column, (provider, prompt) in found.items():
            name = " · ".join(filter(None, (provider, prompt if has_prompts else "")))
            counts[name] += 1
            self.is_ambiguous |= counts[name] > 1
            self.names[column] = name if counts[name] == 1 else f"{name} ({counts[name]})"

    def suffix(self, result: Mapping[str, Any]) -> str:
        name = "" if self._is_by_test else self.names[_column_of(result)]
        return f" [{name}]" if name else ""


def _by_test() -> str:
    return f"{parameter_name('--map')} item=vars"


def _column_of(result: Mapping[str, Any]) -> str:
    return str(result.get("promptIdx"))


def _provider(result: Mapping[str, Any]) -> str:
    provider = result.get("provider")
    named = object_of(provider)
    return text_of(named.get("label") or named.get("id") or (None if named else provider)) or ""


def _prompt(result: Mapping[str, Any]) -> str:
    return id_of(text_of(object_of(result.get("prompt")).get("label")) or "")


def _results_of(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if _is_result(document):
        # JSON Lines with one line.
        return [document]
    results = document.get("results")
    # Version 3 has the results inside an object, older versions had the list itself.
    return objects_of(results if isinstance(results, list) else object_of(results).get("results"))


def _is_result(result: Mapping[str, Any]) -> bool:
    return {"promptIdx", "testCase", "vars"} <= {*result}


def _traces(
    results: Iterable[Mapping[str, Any]], columns: _Columns, notes: list[str]
) -> Iterator[Trace]:
    trials, ignored = TrialCounter(), IgnoredFields(RESULT_FIELDS)
    for result in results:
        ignored.check(result)
        item = f"{_test_id(result)}{columns.suffix(result)}"
        trial = trials.next_trial(item)
        outcome = _outcome(result)
        response = object_of(result.get("response"))
        usage = _usage(result, response)
        is_answered = outcome in (TraceOutcome.SCORED, TraceOutcome.JUDGE_ERROR)
        yield Trace(
            trace_id=f"{item}#{trial}",
            item_id=item,
            trial=trial,
            outcome=outcome,
            input=text_of(object_of(result.get("prompt")).get("raw"), TextRole.QUESTION),
            expected_output=_expected(result),
            output=(text_of(response.get("output")) or "") if is_answered else None,
            error=text_of(result.get("error")),
            tags=_tags(result),
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cost_usd=usage.cost_usd,
            latency_ms=amount_of(result.get("latencyMs")),
            scores=_scores(result, outcome),
        )
    notes += describe_ignored("fields of results", ignored)


def _usage(result: Mapping[str, Any], response: Mapping[str, Any]) -> ReportedUsage:
    tokens = object_of(response.get("tokenUsage")) or object_of(result.get("tokenUsage"))
    cost = amount_of(result.get("cost"))
    if cost == 0 and response.get("cost") is None:
        # promptfoo writes 0 for a provider that reports no cost.
        cost = None
    return drop_unknown_zeros(
        count_of(tokens.get("prompt")), count_of(tokens.get("completion")), cost
    )


def _test_id(result: Mapping[str, Any]) -> str:
    """The description and the variables of the test."""
    variables = json.dumps(result.get("vars"), ensure_ascii=False, sort_keys=True)
    description = object_of(result.get("testCase")).get("description")
    return id_of(f"{description} {variables}" if description else variables)


def _outcome(result: Mapping[str, Any]) -> TraceOutcome:
    error = str(result.get("error") or "")
    if result.get("failureReason") == RAISED:
        return outcome_of_error(error)
    # `error` is also set for a failed assertion, which is an answer of the agent.
    is_judge_broken = error.startswith(BROKEN_ASSERTIONS)
    return TraceOutcome.JUDGE_ERROR if is_judge_broken else TraceOutcome.SCORED


def _expected(result: Mapping[str, Any]) -> str | None:
    assertions = objects_of(object_of(result.get("testCase")).get("assert"))
    for kind in REFERENCES:
        for assertion in assertions:
            if assertion.get("type") == kind and assertion.get("value") is not None:
                return text_of(assertion["value"])
    return None


def _tags(result: Mapping[str, Any]) -> tuple[str, ...]:
    prompt = text_of(object_of(result.get("prompt")).get("label"))
    topic = object_of(object_of(result.get("testCase")).get("metadata")).get("topic")
    return (
        *model_tags(object_of(result.get("provider")).get("id")),
        *((f"prompt:{id_of(prompt)}",) if prompt else ()),
        *((f"category:{topic}",) if isinstance(topic, str) else ()),
    )


def _scores(result: Mapping[str, Any], outcome: TraceOutcome) -> dict[str, float]:
    """Pass or fail, the score, and the named scores; none for an error of the infrastructure."""
    if outcome.is_missing:
        return {}
    scores = {
        name: number
        for name, value in object_of(result.get("namedScores")).items()
        if (number := as_number(value)) is not None
    }
    score = as_number(result.get("score"))
    if score is not None and 0.0 <= score <= 1.0:
        scores["TASK_SCORE"] = score
    # A test without an assertion passes.
    scores["TASK_PASSED"] = float(bool(result.get("success")))
    return scores


IMPORTERS.register(
    "promptfoo",
    Importer(summary="results of promptfoo", recognizes=recognizes_promptfoo, read=read_promptfoo),
)
