"""Results of promptfoo: JSON (`results.results[]`) and JSON Lines.

Each prompt and provider is a column of promptfoo; one item is one test in one column. Of a file with several columns
an item has the name of its column, the provider or the prompt or both: the position changes with
`--filter-providers`. `--repeat`
leaves no mark in the file: the same variables in the same column are trials of one item.
Results of version 1 and 2 (until 2024) do not name their column: it is that of their provider and prompt.
Source: format version 3 of promptfoo 0.121.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

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
from mosaico.traces.files.importer_registry import (
    IMPORTERS,
    ImportedTraces,
    Importer,
    in_column,
)
from mosaico.traces.files.read_report import ReadCounts
from mosaico.traces.reported_usage import ReportedUsage, drop_unknown_zeros
from mosaico.traces.storable_traces import id_of
from mosaico.traces.types import Trace, TraceOutcome
from mosaico.traces.value_text import TextRole, read_text

RESULT_FIELDS: Final = (
    "vars", "promptIdx", "prompt", "provider", "testCase", "response", "error", "failureReason",
    "success", "score", "namedScores", "cost", "latencyMs", "tokenUsage",
    # The parts of the score, and IDs of this run.
    "gradingResult", "id", "promptId", "testIdx",
)  # fmt: skip
# `failureReason`: 0 none, 1 an assertion failed, 2 the provider or the test raised an error.
RAISED: Final = 2
# The code of the assertion itself failed, or the model that grades: nobody judged the answer.
BROKEN_ASSERTIONS: Final = (
    "Custom function threw error", "Python code execution failed", "Ruby code execution failed",
    "Could not extract JSON from", "llm-rubric produced malformed response", "API call error", "API error",
)  # fmt: skip
NO_GRADE: Final = "No output"
# Assertions whose value is an answer, the most certain first; other values are code or rubrics.
REFERENCES: Final = (
    "equals", "similar", "levenshtein", "factuality", "rouge-n", "bleu", "meteor", "icontains",
    "contains",
)  # fmt: skip


def recognizes_promptfoo(file: ImportFile) -> bool:
    """Return whether the results have the fields of promptfoo."""
    if file.container is Container.JSON:
        results = _results_of(file.document)[:1]
        return any(_is_result(r) or _is_old_result(r) for r in results)
    return file.container is Container.JSON_LINES and _is_result(file.first_row)


def read_promptfoo(file: ImportFile, _: Mapping[str, str]) -> ImportedTraces:
    """The traces of all columns of a result file."""
    columns = _columns(_iter_results(file))
    names = _column_names(columns) if len(columns) > 1 else {}
    notes: list[str] = []
    directions: dict[str, str] = {}
    return ImportedTraces(
        traces=_traces(_iter_results(file), names, notes, directions, file.counts),
        notes=notes,
        directions=directions,
        item_columns=tuple(names.values()),
        column_names=()
        if names
        else tuple(name for column in columns.values() for name in column.names),
    )


def _iter_results(file: ImportFile) -> Iterator[Mapping[str, Any]]:
    if file.container is Container.JSON:
        results = _results_of(file.document)
        is_old = bool(results) and _is_old_result(results[0])
        yield from _with_columns(results) if is_old else results
    else:
        yield from (_with_provider(row.cells) for row in file.rows())


class _Column(NamedTuple):
    """A column of results: a provider and a prompt."""

    provider: str
    prompt: str

    @property
    def names(self) -> tuple[str, ...]:
        """The names that it has beside columns with another provider, another prompt, or both."""
        both = f"{self.provider} · {self.prompt}"
        return tuple(map(id_of, filter(None, (self.provider, self.prompt, both))))


def _columns(results: Iterable[Mapping[str, Any]]) -> dict[Any, _Column]:
    """The columns by position."""
    columns: dict[Any, _Column] = {}
    for result in results:
        position = _position(result)
        if position not in columns:
            parts = (object_of(result.get("provider")), object_of(result.get("prompt")))
            texts = (part.get("label") or part.get("id") or part.get("raw") for part in parts)
            columns[position] = _Column(*(text_of(text) or "" for text in texts))
    return columns


def _position(result: Mapping[str, Any]) -> str:
    return str(result.get("promptIdx"))


def _column_names(columns: Mapping[Any, _Column]) -> dict[Any, str]:
    """The names of several columns by position: what they differ in, so that an edited prompt is no other column. Equal
    columns are numbered.
    """
    providers, prompts = (len({*texts}) for texts in zip(*columns.values(), strict=True))
    names: dict[Any, str] = {}
    seen = Counter[str]()
    for position, column in columns.items():
        own = column.prompt if providers == 1 and prompts > 1 else column.provider
        name = id_of(f"{column.provider} · {column.prompt}" if min(providers, prompts) > 1 else own)
        seen[name] += 1
        names[position] = name if seen[name] == 1 else f"{name} #{seen[name]}"
    return names


def _results_of(document: Any) -> list[Mapping[str, Any]]:
    """The results of version 3, which are inside an object, of older versions, and of a list of them alone."""
    results = document if isinstance(document, list) else object_of(document).get("results")
    listed = results if isinstance(results, list) else object_of(results).get("results")
    return [_with_provider(result) for result in objects_of(listed)]


def _with_provider(result: Mapping[str, Any]) -> Mapping[str, Any]:
    provider = result.get("provider")
    return {**result, "provider": {"id": provider}} if isinstance(provider, str) else result


def _is_result(result: Mapping[str, Any]) -> bool:
    return {"promptIdx", "testCase", "vars"} <= {*result}


def _is_old_result(result: Mapping[str, Any]) -> bool:
    """Return whether a result is one of version 1 or 2, which names its provider, its prompt and its success only."""
    is_old = {"provider", "prompt", "vars", "success"} <= {*result} and "promptIdx" not in result
    return is_old and isinstance(result["prompt"], dict)


def _with_columns(results: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Results of version 1 and 2 in the form of version 3. An error beside a grading is that of an assertion."""
    positions: dict[tuple[str, str], int] = {}
    for result in results:
        provider, prompt = object_of(result.get("provider")), object_of(result.get("prompt"))
        # The template: `raw` is the prompt with the variables of this test.
        template = str(prompt.get("label") or prompt.get("display") or "")
        column = (str(provider.get("label") or provider.get("id")), template)
        is_raised = bool(result.get("error")) and not result.get("gradingResult")
        yield {
            "testCase": {"assert": []},
            "failureReason": RAISED if is_raised else 0,
            **result,
            "prompt": {**prompt, "label": template},
            "promptIdx": positions.setdefault(column, len(positions)),
        }


def _traces(
    results: Iterable[Mapping[str, Any]],
    columns: Mapping[Any, str],
    notes: list[str],
    directions: dict[str, str],
    counts: ReadCounts,
) -> Iterator[Trace]:
    trials, ignored = TrialCounter(), IgnoredFields(RESULT_FIELDS)
    for result in results:
        ignored.check(result)
        # A named score is that of assertions, which a higher score satisfies.
        directions.update(dict.fromkeys(object_of(result.get("namedScores")), "higher"))
        item = _item_id(result, columns)
        trial = trials.next_trial(item)
        outcome = _outcome(result)
        response = object_of(result.get("response"))
        usage = _usage(result, response)
        is_answered = outcome in (TraceOutcome.SCORED, TraceOutcome.JUDGE_ERROR)
        answer = read_text(response.get("output"))
        if is_answered:
            counts.add_text("output", answer)
        yield Trace(
            trace_id=f"{item}#{trial}",
            item_id=item,
            trial=trial,
            outcome=outcome,
            input=text_of(object_of(result.get("prompt")).get("raw"), TextRole.QUESTION),
            expected_output=_expected(result),
            output=(answer.text or "") if is_answered else None,
            error=text_of(result.get("error")),
            tags=_tags(result),
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cost_usd=usage.cost_usd,
            latency_ms=amount_of(result.get("latencyMs")),
            scores=_scores(result, outcome),
        )
    notes += describe_ignored("fields of results", ignored)
    if repeated := trials.describe():
        notes.append(f"results of the same test are its trials: {repeated}")


def _usage(result: Mapping[str, Any], response: Mapping[str, Any]) -> ReportedUsage:
    tokens = object_of(response.get("tokenUsage")) or object_of(result.get("tokenUsage"))
    cost = amount_of(result.get("cost"))
    if cost == 0 and response.get("cost") is None:
        # promptfoo writes 0 for a provider that reports no cost.
        cost = None
    return drop_unknown_zeros(
        count_of(tokens.get("prompt")), count_of(tokens.get("completion")), cost
    )


def _item_id(result: Mapping[str, Any], columns: Mapping[Any, str]) -> str:
    """The variables of the test, and its column where there are several."""
    variables = json.dumps(result.get("vars"), ensure_ascii=False, sort_keys=True)
    description = object_of(result.get("testCase")).get("description")
    item = id_of(f"{description} {variables}" if description else variables)
    return in_column(item, columns[_position(result)]) if columns else item


def _outcome(result: Mapping[str, Any]) -> TraceOutcome:
    error = str(result.get("error") or "")
    if result.get("failureReason") == RAISED:
        return outcome_of_error(error)
    return TraceOutcome.JUDGE_ERROR if _is_judge_broken(result) else TraceOutcome.SCORED


def _is_judge_broken(result: Mapping[str, Any]) -> bool:
    """Return whether no assertion failed that was judged. `error` is also set for a failed assertion, which is an answer of the
    agent.
    """
    if result.get("success"):
        return False
    grading = object_of(result.get("gradingResult"))
    failed = [c for c in objects_of(grading.get("componentResults")) if c.get("pass") is False]
    if failed:
        return all(_is_broken(c.get("reason"), object_of(c.get("metadata"))) for c in failed)
    return _is_broken(result.get("error") or grading.get("reason"), {})


def _is_broken(reason: Any, metadata: Mapping[str, Any]) -> bool:
    text = str(reason or "")
    return (
        bool(metadata.get("graderError")) or text == NO_GRADE or text.startswith(BROKEN_ASSERTIONS)
    )


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
