"""Items from traces: what an agent was asked in a run, in production or in an upload, as an item of a dataset."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from sqlalchemy.orm import Session

from mosaico.annotations.models import Annotation
from mosaico.annotations.queries import list_of_answer
from mosaico.annotations.schemas import AnswerJudgement
from mosaico.benchmarks.queries import get_benchmark
from mosaico.core.errors import Invalid
from mosaico.run_store.queries import get_run_with_traces, get_trace
from mosaico.traces.datasets import queries, service
from mosaico.traces.datasets.edit_rules import TASK_TAG
from mosaico.traces.datasets.errors import ItemExists
from mosaico.traces.datasets.schemas import EditResult, TraceItemCreate
from mosaico.traces.datasets.service import ItemEdit
from mosaico.traces.models import CollectedTrace
from mosaico.traces.queries import find_collected_trace
from mosaico.traces.redaction import RedactionRules
from mosaico.traces.storable_traces import short_id
from mosaico.traces.types import DatasetItem
from mosaico.traces.upload_errors import UploadTraceNotFound
from mosaico.traces.uploads.queries import get_local_dataset


class TraceOrigin(NamedTuple):
    """A stored trace, what has it, and the rules of the benchmark whose run that is."""

    trace: CollectedTrace
    source: Mapping[str, str]
    redact: RedactionRules | None = None
    right_answer: str | None = None
    """The right answer in the words of annotators; None where they say none."""


def add_item_from_trace(
    session: Session, origin: TraceOrigin, body: TraceItemCreate, *, by: str, now: datetime
) -> EditResult:
    """Make an item of a trace: its question, and the expected answer of the request, otherwise of annotators,
    otherwise of the trace. An item that the dataset has already keeps all but an expected answer of the first two: people may
    have edited it since the trace.

    Raises: `Invalid` for a trace without an input, `ItemExists` where the dataset has another item with its ID.
    """
    trace = origin.trace
    if not trace.input:
        raise Invalid("the trace has no input, so that no item can be made of it")
    dataset = service.find_or_create(session, body.dataset)
    item = _item_of(origin, body)
    stored = queries.find_items(session, dataset.id, dataset.version, [item.id]).get(item.id)
    if stored is not None and not stored.is_retired:
        if stored.input != item.input:
            raise ItemExists(
                f"the dataset {dataset.name!r} has another item {item.id!r:.80}; edit it, or send another itemId"
            )
        item = _with_right_answer(queries.item_of_state(stored, is_tagged=False), origin, body)
    edit = ItemEdit(
        base_version=dataset.version,
        items=[item],
        note=body.note,
        origins={
            item.id: {**origin.source, "trace_id": trace.trace_id, "item_id": trace.item_id},
        },
        redact=origin.redact,
    )
    return service.edit_dataset(session, dataset.id, edit, by=by, now=now)


def find_trace_of_run(session: Session, run_id: str, trace_id: str) -> TraceOrigin:
    """A trace of a run. Raises: `RunNotFound`, `RunPurged`, `TraceNotFound`."""
    run = get_run_with_traces(session, run_id)
    trace = get_trace(session, run, trace_id).trace
    return TraceOrigin(
        trace,
        {"run_id": run.id, **_named(run.begun_plan.dataset_ref)},
        get_benchmark(session, run.benchmark_id).redact,
        right_answer(trace, list_of_answer(session, run.id, trace_id)),
    )


def right_answer(trace: CollectedTrace, annotations: Sequence[Annotation]) -> str | None:
    """The newest corrected answer; without one the agent's own answer, where everybody calls it right and the trace
    has no expected answer. None if neither holds.
    """
    corrected = (annotation.corrected_answer for annotation in annotations)
    if answer := next(filter(None, corrected), None):
        return answer
    has_expected = trace.expected_output or trace.expected_any or trace.expected_all
    judgements = {annotation.judgement for annotation in annotations}
    return trace.output if judgements == {AnswerJudgement.RIGHT} and not has_expected else None


def find_trace_of_upload(session: Session, upload_id: str, trace_id: str) -> TraceOrigin:
    """A trace of an upload. Raises: `UploadNotFound`, `UploadTraceNotFound`."""
    upload = get_local_dataset(session, upload_id)
    trace = find_collected_trace(session, upload.collection_id, trace_id)
    return TraceOrigin(
        UploadTraceNotFound.unless(trace), {"upload_id": upload.id, **_named(upload.name)}
    )


def _named(dataset: str | None) -> dict[str, str]:
    """The dataset of a trace, by which its item can be erased."""
    return {} if dataset is None else {"dataset": dataset}


def _item_of(origin: TraceOrigin, body: TraceItemCreate) -> DatasetItem:
    trace = origin.trace
    item = DatasetItem(
        id=body.item_id or short_id(trace.item_id),
        input=trace.input or "",
        expected_output=trace.expected_output,
        expected_any=tuple(trace.expected_any or ()),
        expected_all=tuple(trace.expected_all or ()),
        tags=tuple(tag for tag in trace.tags if not tag.startswith(TASK_TAG)),
        attributes=trace.attributes or {},
    )
    return _with_right_answer(item, origin, body)


def _with_right_answer(
    item: DatasetItem, origin: TraceOrigin, body: TraceItemCreate
) -> DatasetItem:
    """The item with the right answer of the request, otherwise of annotators; without one as it is."""
    answer = body.expected_output or origin.right_answer
    if answer is None:
        return item
    return replace(item, expected_output=answer, expected_any=(), expected_all=())
