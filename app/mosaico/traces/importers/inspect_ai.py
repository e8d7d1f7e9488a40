"""Logs of Inspect AI: `.eval` archives, sample by sample, and `.json` logs.

An archive is a ZIP file whose members are compressed with Zstandard, which the standard library of
Python 3.11 cannot read; the extra `inspect` can. Source: log format version 2 of inspect-ai 0.3.
"""

import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, TypeVar

from mosaico.traces.error_rules import outcome_of_error
from mosaico.traces.files.cell_values import as_number
from mosaico.traces.files.ignored_fields import IgnoredFields, describe_ignored
from mosaico.traces.files.import_file import Container, ImportFile
from mosaico.traces.files.imported_values import (
    amount_of,
    count_of,
    model_tags,
    object_of,
    objects_of,
    text_of,
)
from mosaico.traces.files.importer_registry import IMPORTERS, ImportedTraces, Importer
from mosaico.traces.files.limited_file import InvalidImport
from mosaico.traces.files.read_report import ReadCounts
from mosaico.traces.files.zip_members import open_archive, read_member, read_members
from mosaico.traces.references import ListRule, References, expected_fields, read_targets
from mosaico.traces.reported_usage import ReportedUsage, drop_unknown_zeros
from mosaico.traces.storable_traces import short_id
from mosaico.traces.types import ToolCall, Trace, TraceOutcome
from mosaico.traces.value_text import TextRole

Number = TypeVar("Number", int, float)
SAMPLES: Final = "samples/"
HEADERS: Final = ("header.json", "_journal/start.json")
# The grades of the scorers of Inspect: correct, incorrect, partial, no answer.
GRADES: Final = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
MILLISECONDS: Final = 1000.0
SAMPLE_FIELDS: Final = (
    "id", "epoch", "input", "target", "messages", "output", "scores", "model_usage", "total_time",
    "error", "limit", "metadata", "score", "role_usage", "invalidation",
    # Of how it ran, not of what it answered.
    "choices", "events", "events_data", "attachments", "store", "uuid", "started_at", "completed_at",
    "working_time", "turn_count", "error_retries", "files", "sandbox", "setup",
)  # fmt: skip
# Roles of the models of scorers, whose tokens stand among those of the sample.
GRADERS: Final = frozenset({"grader", "judge", "scorer"})
UNNAMED: Final = "sample without an ID"
MOST_NAMES: Final = 5
METADATA_FIELDS: Final = ("category", "topic")


def recognizes_inspect(file: ImportFile) -> bool:
    """Return whether a file is an archive with samples, or a JSON log with an evaluation."""
    if file.container is Container.ZIP:
        names = open_archive(file).namelist()
        return any(name.startswith(SAMPLES) or name in HEADERS for name in names)
    if file.container is not Container.JSON:
        return False
    document = object_of(file.document)
    return "eval" in document and "status" in document


def read_inspect(file: ImportFile, _: Mapping[str, str]) -> ImportedTraces:
    """The traces of a log, one per sample and epoch. Raises: `InvalidImport`."""
    if file.container is Container.ZIP:
        archive = open_archive(file)
        log, samples = _read_header(file, archive), _archived_samples(file, archive)
    else:
        log = object_of(file.document)
        samples = iter(objects_of(log.get("samples")))
    samples = _require_sample(file, samples)
    evaluation = object_of(log.get("eval"))
    scorer = _main_scorer(log)
    status = log.get("status", "started")
    notes = [] if status == "success" else [f"the status of this log is {status}: it is incomplete"]
    return ImportedTraces(
        traces=_traces(samples, evaluation.get("model"), scorer, notes, file.counts), notes=notes
    )


def _require_sample(
    file: ImportFile, samples: Iterator[Mapping[str, Any]]
) -> Iterator[Mapping[str, Any]]:
    first = next(samples, None)
    if first is None:
        raise InvalidImport(
            f"{file.name}: this log has no samples, only results of the whole evaluation; run it without"
            " --no-log-samples, or wait until it has a first sample"
        )
    return chain([first], samples)


def _traces(
    samples: Iterator[Mapping[str, Any]],
    model: Any,
    scorer: str | None,
    notes: list[str],
    counts: ReadCounts,
) -> Iterator[Trace]:
    ignored = IgnoredFields(SAMPLE_FIELDS)
    ignored_metadata = IgnoredFields(METADATA_FIELDS, "metadata.")
    unscored: Counter[str] = Counter()
    invalidated: list[str] = []
    models: set[str] = set()
    for sample in samples:
        if sample.get("invalidation"):
            invalidated.append(f"{sample.get('id')}#{sample.get('epoch')}")
            continue
        models |= {*object_of(sample.get("model_usage"))} - _models_of_graders(sample)
        unscored.update(_unscored(sample))
        ignored.check(sample)
        ignored_metadata.check(object_of(sample.get("metadata")))
        trace = _trace(sample, model, scorer)
        counts.several_expected += bool(trace.expected_any)
        yield trace
    notes += describe_ignored("fields of samples", ignored, ignored_metadata)
    if invalidated:
        notes.append(
            f"invalidated samples that are not used: {', '.join(invalidated[:MOST_NAMES])}"
        )
    if len(models) > 1:
        notes.append(
            f"tokens of several models are added: {', '.join(sorted(models))}; those of a grader are left out only"
            " where it has the role grader"
        )
    if unscored:
        named = ", ".join(f"{name} {count}" for name, count in unscored.items())
        notes.append(f"scores that are no number are missing: {named}")


def _trace(sample: Mapping[str, Any], model: Any, scorer: str | None) -> Trace:
    item, epoch = short_id(str(sample.get("id")) or UNNAMED), count_of(sample.get("epoch")) or 1
    error = object_of(sample.get("error")).get("message")
    output = object_of(sample.get("output"))
    scores = _scores(sample)
    outcome = _outcome(sample, error, is_scored=bool(scores))
    is_answered = outcome is TraceOutcome.SCORED
    tokens = _usage(sample)
    return Trace(
        trace_id=short_id(f"{item}#{epoch}"),
        item_id=item,
        trial=epoch - 1,
        outcome=outcome,
        input=text_of(sample.get("input"), TextRole.QUESTION),
        # A sample that ended without an answer has an empty one.
        output=_answer(output) if is_answered else None,
        error=text_of(error),
        tags=(*model_tags(output.get("model") or model), *_category(sample)),
        input_tokens=tokens.input_tokens,
        output_tokens=tokens.output_tokens,
        cost_usd=tokens.cost_usd,
        latency_ms=amount_of(sample.get("total_time"), MILLISECONDS),
        tool_calls=_tool_calls(sample),
        scores=_with_verdict(scores, scorer, outcome),
        **expected_fields(_targets(sample)),
    )


def _targets(sample: Mapping[str, Any]) -> References:
    """The targets of a sample: each of them is right, of a multiple choice all of them together."""
    is_choice = bool(sample.get("choices"))
    return read_targets(sample.get("target"), ListRule.ALL if is_choice else ListRule.ANY)


def _outcome(sample: Mapping[str, Any], error: Any, *, is_scored: bool) -> TraceOutcome:
    if error:
        return outcome_of_error(str(error))
    limit = object_of(sample.get("limit")).get("type")
    return TraceOutcome.TIMEOUT if limit == "time" and not is_scored else TraceOutcome.SCORED


def _scores(sample: Mapping[str, Any]) -> dict[str, float]:
    """The values of all scorers; those of a scorer with several values are named `scorer.key`, those of a list numbered."""
    scores: dict[str, float] = {}
    for name, score in _named_scores(sample).items():
        value = object_of(score).get("value")
        if isinstance(value, list):
            value = {str(number): part for number, part in enumerate(value, start=1)}
        parts = value if isinstance(value, dict) else {"": value}
        for key, part in parts.items():
            number = GRADES.get(part) if isinstance(part, str) else None
            number = as_number(part) if number is None else number
            if number is not None:
                scores[f"{name}.{key}" if key else name] = number
    return scores


def _named_scores(sample: Mapping[str, Any]) -> Mapping[str, Any]:
    """The scores by scorer; logs of early 2024 have the one of their only scorer."""
    only = sample.get("score")
    return object_of(sample.get("scores")) or ({"score": only} if only else {})


def _unscored(sample: Mapping[str, Any]) -> Iterator[str]:
    """The scorers of a sample that gave no number."""
    numbers = _scores(sample)
    for name in _named_scores(sample):
        if not any(number == name or number.startswith(f"{name}.") for number in numbers):
            yield name


def _main_scorer(log: Mapping[str, Any]) -> str | None:
    """The scorer that Inspect shows first."""
    results = object_of(log.get("results"))
    headline = object_of(results.get("headline")).get("score")
    first = next(iter(objects_of(results.get("scores"))), {}).get("name")
    scorers = objects_of(object_of(log.get("eval")).get("scorers"))
    name = headline or first or next(iter(scorers), {}).get("name")
    return name if isinstance(name, str) else None


def _with_verdict(
    scores: dict[str, float], scorer: str | None, outcome: TraceOutcome
) -> dict[str, float]:
    """The scores with the main one as TASK_SCORE, and as TASK_PASSED when it is all or nothing."""
    main = scores.get(scorer) if scorer else None
    if main is None and outcome.is_agent_failure:
        main = 0.0
    if main is None or not 0.0 <= main <= 1.0:
        return scores
    return {"TASK_PASSED": float(main == 1.0), "TASK_SCORE": main} | scores


def _tool_calls(sample: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    """The calls in the messages: the events refer to attachments instead of holding texts."""
    messages = objects_of(sample.get("messages"))
    errors = {
        message.get("tool_call_id"): message.get("error")
        for message in messages
        if message.get("role") == "tool"
    }
    return tuple(
        ToolCall(
            name=str(call.get("function")),
            arguments=object_of(call.get("arguments")),
            ok=errors[call.get("id")] is None if call.get("id") in errors else None,
        )
        for message in messages
        for call in objects_of(message.get("tool_calls"))
    )


def _category(sample: Mapping[str, Any]) -> tuple[str, ...]:
    metadata = object_of(sample.get("metadata"))
    category = metadata.get("category") or metadata.get("topic")
    return (f"category:{category}",) if isinstance(category, str) else ()


def _answer(output: Mapping[str, Any]) -> str:
    """The text of the answer. Logs before 0.3.123 have no completion: it is in the first choice."""
    if output.get("completion") is not None:
        return text_of(output["completion"]) or ""
    message = next(iter(objects_of(output.get("choices"))), {}).get("message")
    return text_of(message) or ""


def _usage(sample: Mapping[str, Any]) -> ReportedUsage:
    """The tokens and the cost of all models of a sample, without those of the graders that have a role."""
    models = [object_of(usage) for usage in object_of(sample.get("model_usage")).values()]
    roles = object_of(sample.get("role_usage"))
    graders = [object_of(usage) for role, usage in roles.items() if role in GRADERS]
    return drop_unknown_zeros(
        _difference(map(_input_tokens, models), map(_input_tokens, graders)),
        _difference(map(_output_tokens, models), map(_output_tokens, graders)),
        _difference(map(_cost, models), map(_cost, graders)),
    )


def _output_tokens(usage: Mapping[str, Any]) -> int | None:
    return count_of(usage.get("output_tokens"))


def _cost(usage: Mapping[str, Any]) -> float | None:
    return amount_of(usage.get("total_cost"))


def _difference(of_all: Iterable[Number | None], of_some: Iterable[Number | None]) -> Number | None:
    """A sum without a part of it; None where the sum is unknown."""
    total, part = _sum(of_all), _sum(of_some)
    return total if total is None or part is None else total - part


def _models_of_graders(sample: Mapping[str, Any]) -> set[str]:
    """The models that only graders used: all tokens of theirs are those of their role."""
    roles = object_of(sample.get("role_usage"))
    usage = [object_of(of_role) for role, of_role in roles.items() if role in GRADERS]
    models = object_of(sample.get("model_usage"))
    return {name for name, of_model in models.items() if of_model in usage}


def _input_tokens(usage: Mapping[str, Any]) -> int | None:
    """The tokens that a model read, those of its cache included.

    The total has them in every version. Without it they are added: before 0.3.184 some providers counted them
    among the others.
    """
    total, written = count_of(usage.get("total_tokens")), count_of(usage.get("output_tokens"))
    if total is not None and written is not None and total >= written:
        return total - written
    names = ("input_tokens", "input_tokens_cache_read", "input_tokens_cache_write")
    return _sum(count_of(usage.get(name)) for name in names)


def _sum(counts: Iterable[Number | None]) -> Number | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _read_header(file: ImportFile, archive: zipfile.ZipFile) -> Mapping[str, Any]:
    """The header of a log; of a log without an end, what was known at its start."""
    names = set(archive.namelist())
    name = next((name for name in HEADERS if name in names), None)
    if name is None:
        file.reject("the archive has no header.json; it is not a log of Inspect AI")
    return object_of(read_member(file, archive.getinfo(name)).value)


def _archived_samples(file: ImportFile, archive: zipfile.ZipFile) -> Iterator[Mapping[str, Any]]:
    samples = [
        member
        for member in archive.infolist()
        if member.filename.startswith(SAMPLES) and member.filename.endswith(".json")
    ]
    return map(object_of, read_members(file, samples))


IMPORTERS.register(
    "inspect",
    Importer(summary="log of Inspect AI", recognizes=recognizes_inspect, read=read_inspect),
)
