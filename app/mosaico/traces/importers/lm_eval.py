"""Samples of lm-evaluation-harness (`--log_samples`), as JSON Lines.

A task with several filters has a line for each document and filter: they become one trace, whose
scores are named `metric (filter)`. Of the `repeats` of a document, those that the filter keeps are
its trials. The file does not name the model. Source: lm-eval 0.4.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mosaico.traces.files.cell_values import as_number
from mosaico.traces.files.ignored_fields import IgnoredFields, describe_ignored
from mosaico.traces.files.import_file import Container, ImportFile, TableRow
from mosaico.traces.files.imported_values import object_of, objects_of, text_of
from mosaico.traces.files.importer_registry import IMPORTERS, ImportedTraces, Importer
from mosaico.traces.references import expected_fields, read_targets
from mosaico.traces.storable_traces import short_id
from mosaico.traces.types import Trace
from mosaico.traces.value_text import TextRole

FIELDS: Final = {"doc_id", "resps", "filtered_resps"}
# Besides these, all fields of a file without `metrics` (before 0.4.7) are metrics.
SAMPLE_FIELDS: Final = FIELDS | {
    *("doc", "arguments", "target", "filter", "metrics"),
    # Of the texts that are read.
    *("doc_hash", "prompt_hash", "target_hash"),
}
NO_FILTER: Final = "none"
LOWER_IS_BETTER: Final = ("perplexity", "bits_per_byte", "ter", "brier_score")


def recognizes_lm_eval(file: ImportFile) -> bool:
    """Return whether the first line, or the first sample of a task, has the fields of a sample."""
    if file.container is Container.CSV:
        return False
    return {*file.first_row} >= FIELDS or bool(_by_task(file))


def _by_task(file: ImportFile) -> dict[str, list[Mapping[str, Any]]]:
    """The samples by task in the results of `simple_evaluate`; empty for another file."""
    document = file.document if file.container is Container.JSON else None
    tasks = object_of(object_of(document).get("samples"))
    samples = {task: objects_of(listed) for task, listed in tasks.items()}
    are_samples = all(sample.keys() >= FIELDS for listed in samples.values() for sample in listed)
    return samples if are_samples else {}


def _rows(file: ImportFile) -> Iterator[TableRow]:
    """The samples of a file; of several tasks a document has the name of its task."""
    tasks = _by_task(file)
    if not tasks:
        yield from file.rows()
    for task, samples in tasks.items():
        for number, sample in enumerate(samples, start=1):
            name = f"{task}/{sample['doc_id']}" if len(tasks) > 1 else sample["doc_id"]
            yield TableRow(f"{task}, sample {number}", {**sample, "doc_id": name})


def read_lm_eval(file: ImportFile, _: Mapping[str, str]) -> ImportedTraces:
    """The traces of a file of samples, one for each document and kept repeat."""
    notes: list[str] = []
    return ImportedTraces(traces=_traces(file, notes), notes=notes)


def _traces(file: ImportFile, notes: list[str]) -> Iterator[Trace]:
    samples: dict[str, Mapping[str, Any]] = {}
    scores: dict[str, dict[str, float]] = {}
    filters: dict[str, int] = {}
    lists: dict[str, None] = {}
    seen: set[tuple[str, str]] = set()
    answers, repeats, ignored = 1, 1, IgnoredFields(SAMPLE_FIELDS)
    for row in _rows(file):
        if not {*row.cells} >= FIELDS:
            file.reject(f"{row.position}: expected a sample with {', '.join(sorted(FIELDS))}")
        metric_names = _metric_names(row.cells)
        lists |= dict.fromkeys(n for n in metric_names if isinstance(row.cells.get(n), list))
        ignored.check({name: cell for name, cell in row.cells.items() if name not in metric_names})
        item = short_id(str(row.cells["doc_id"]))
        if not item:
            file.reject(f"{row.position}: the doc_id is empty")
        first = samples.setdefault(item, row.cells)
        filters[item] = filters.get(item, 0) + 1
        name = _filter_name(row.cells, filters[item])
        _require_new(file, row, item, name, seen)
        scores.setdefault(item, {}).update(_scores(row.cells, name, is_first=first is row.cells))
        answers, repeats = len(_answers(row.cells)), _repeats(row.cells)
    if answers < repeats:
        notes.append(
            f"the filter of the task kept {answers} of {repeats} repeats; only those are read"
        )
    notes += describe_ignored("fields of samples", ignored)
    if lists:
        notes.append(f"metrics that are lists and not numbers are not used: {', '.join(lists)}")
    if any("filter" not in sample and filters[item] > 1 for item, sample in samples.items()):
        notes.append("the file does not name its filters: they are numbered in its order")
    for item, sample in samples.items():
        expected = _expected(sample)
        file.counts.several_expected += "expected_any" in expected
        for trial, answer in enumerate(_answers(sample)):
            yield Trace(
                trace_id=f"{item}#{trial}",
                item_id=item,
                trial=trial,
                input=_prompt(sample),
                output=answer,
                scores=scores[item],
                **expected,
            )


def _require_new(
    file: ImportFile, row: TableRow, item: str, filter_name: str, seen: set[tuple[str, str]]
) -> None:
    """Refuse a second line of a document and a filter: it would silently replace the first one."""
    if (item, filter_name) in seen:
        file.reject(
            f"{row.position}: the doc_id {item} is there twice: the file holds several tasks or models; write each into"
            " a file of its own"
        )
    seen.add((item, filter_name))


def _metric_names(sample: Mapping[str, Any]) -> list[str]:
    named = sample.get("metrics")
    return (
        list(map(str, named))
        if isinstance(named, list) and named
        else [n for n in sample if n not in SAMPLE_FIELDS]
    )


def _filter_name(sample: Mapping[str, Any], number: int) -> str:
    """The filter of a line, empty for none; files before 0.4.7 have a line for each and no names."""
    if "filter" in sample:
        return "" if sample["filter"] == NO_FILTER else str(sample["filter"])
    return "" if number == 1 else f"filter {number}"


def _scores(sample: Mapping[str, Any], filter_name: str, *, is_first: bool) -> dict[str, float]:
    """The metrics of a sample; the first one of the first filter is the result of the task."""
    suffix = f" ({filter_name})" if filter_name else ""
    named = {
        name: number
        for name in _metric_names(sample)
        if (number := as_number(sample.get(name))) is not None
    }
    scores = {f"{name}{suffix}": number for name, number in named.items()}
    main, number = next(iter(named.items()), ("", None))
    is_share = number is not None and 0.0 <= number <= 1.0
    if is_first and number is not None and is_share and not main.endswith(LOWER_IS_BETTER):
        scores["TASK_SCORE"] = number
        if number in (0.0, 1.0):
            scores["TASK_PASSED"] = number
    return scores


def _repeats(sample: Mapping[str, Any]) -> int:
    responses = sample["resps"]
    is_generated = _choices(sample) is None and isinstance(responses, list) and bool(responses)
    return len(responses[0]) if is_generated and isinstance(responses[0], list) else 1


def _answers(sample: Mapping[str, Any]) -> Sequence[str | None]:
    """The texts that were scored; of a multiple choice the choice with the best likelihood."""
    responses = sample["filtered_resps"]
    if not isinstance(responses, list) or not responses:
        return [None]
    choices = _choices(sample)
    if choices is not None:
        likelihoods = [_likelihood(response) for response in responses]
        is_complete = len(likelihoods) == len(choices) and None not in likelihoods
        best = max(range(len(choices)), key=lambda index: likelihoods[index] or 0.0)
        return [choices[best] if is_complete else None]
    answer = responses[0]
    if isinstance(answer, list) and all(isinstance(part, str) for part in answer):
        return answer
    return [answer if isinstance(answer, str) else None]


def _choices(sample: Mapping[str, Any]) -> list[str] | None:
    """The continuations of a multiple choice; None when the model generated a text."""
    arguments = [arguments[1] for arguments in _arguments(sample)]
    choices = [choice.strip() for choice in arguments if isinstance(choice, str)]
    return choices if choices and len(choices) == len(arguments) else None


def _likelihood(response: Any) -> float | None:
    return as_number(response[0]) if isinstance(response, list) and response else None


def _prompt(sample: Mapping[str, Any]) -> str | None:
    prompt = next((arguments[0] for arguments in _arguments(sample)), None)
    return text_of(prompt or sample.get("doc"), TextRole.QUESTION)


def _arguments(sample: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """The prompt and the second argument of each request; before 0.4.3 they are a list of lists."""
    requests = sample.get("arguments")
    if isinstance(requests, list):
        pairs = [request for request in requests if isinstance(request, list) and request]
        return [(pair[0], pair[1] if len(pair) > 1 else None) for pair in pairs]
    named = object_of(requests)
    by_name = [object_of(named.get(f"gen_args_{index}")) for index in range(len(named))]
    return [(request.get("arg_0"), request.get("arg_1")) for request in by_name]


def _expected(sample: Mapping[str, Any]) -> dict[str, Any]:
    """The expected answers: of several targets each is right. That of a multiple choice is the number of the choice."""
    if isinstance(sample.get("target"), list):
        return expected_fields(read_targets(sample["target"]))
    return {"expected_output": _target(sample)}


def _target(sample: Mapping[str, Any]) -> str | None:
    target, choices = text_of(sample.get("target")), _choices(sample)
    if choices is None or target is None or not target.isdecimal():
        return target
    return choices[int(target)] if int(target) < len(choices) else target


IMPORTERS.register(
    "lm-eval",
    Importer(
        summary="samples of lm-evaluation-harness",
        recognizes=recognizes_lm_eval,
        read=read_lm_eval,
    ),
)
