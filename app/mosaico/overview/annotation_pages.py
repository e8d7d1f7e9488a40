"""Pages of annotations: the queue of answers to judge, and what annotators say of a run or a benchmark."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from fastapi import Path, Query, Request, Response
from sqlalchemy.orm import Session

from mosaico.access.deps import READ, RUN, get_caller
from mosaico.agents.queries import add_agent_names
from mosaico.annotations import service
from mosaico.annotations.judges import list_judges, list_newest_runs
from mosaico.annotations.models import Annotation
from mosaico.annotations.queries import find_own_annotation
from mosaico.annotations.queues import list_rated_metrics, load_queue
from mosaico.annotations.schemas import (
    AnnotationCreate,
    AnnotationQueueView,
    QueuedAnswer,
    QueueFilter,
    QueueKind,
    SummaryScope,
)
from mosaico.annotations.summary import summarize
from mosaico.benchmarks.queries import get_benchmark
from mosaico.core.errors import Invalid
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.sent_fields import (
    FormFields,
    SentForm,
    check_form,
    local_path,
    number_or_text,
)
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.page_text import format_instant
from mosaico.core.web.pages import Crumb, build_url, reader_zone, render_page, see_other
from mosaico.core.web.routes import Router
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.queries import get_run, get_run_with_traces, get_trace
from mosaico.runs.pages.trace_parts import list_calls, list_references, list_usage, list_values
from mosaico.runs.pages.trace_texts import cut_text
from mosaico.runs.pages.traces import list_crumbs

router = Router()

RunId = Annotated[str, Path(alias="runId")]
BenchmarkId = Annotated[str, Path(alias="benchmarkId")]
SHOWN_RUNS: Final = 30
AnnotationId = Annotated[str, Path(alias="annotationId")]
Filter = Annotated[QueueFilter, Query()]
QUEUE_NAMES: Final = {
    QueueKind.FLIPPED: "items that flipped since the baseline",
    QueueKind.SAMPLE: "a random sample",
    QueueKind.JUDGES: "where metrics disagree",
    QueueKind.NEW: "not yet annotated by you",
}


@router.get("/runs/{runId}/annotate", dependencies=RUN)
def show_annotation_queue(
    request: Request,
    run_id: RunId,
    res: Res,
    queue_filter: Filter,
    at: Annotated[int | None, Query(ge=1)] = None,
) -> Response:
    """One answer of a queue to judge: `at` is its number, without it the first one that the reader has not judged."""
    if queue_filter.queue is QueueKind.NEW and queue_filter.since is None:
        # So that the numbers do not move while somebody judges.
        fixed = queue_filter.model_copy(update={"since": res.clock()})
        return see_other(_queue_url(run_id, fixed))
    caller = get_caller(request)
    with res.db.read() as session:
        run = get_run_with_traces(session, run_id)
        queue = load_queue(session, run, queue_filter, caller.key_id)
        number = at or _first_open(queue)
        is_open = number <= len(queue.items)
        answer = _load_answer(session, queue.items[number - 1], caller.key_id) if is_open else {}
        last = _find_last(session, queue, number, caller.key_id)
        steps = [
            *list_crumbs(session, run),
            Crumb("Annotations", f"{path_of('runs', run_id)}/annotations"),
        ]
    parameters = _parameters(queue_filter)
    queue_in_api = build_url(f"/benchmark-runs{path_of(run_id)}/annotation-queue", parameters)
    return render_page(
        request,
        "annotate.html",
        title=answer["trace"].item_id if is_open else "Annotate",
        nav="/runs",
        api=_trace_in_api(answer) if is_open else queue_in_api,
        api_parts={"queue": queue_in_api} if is_open else {},
        steps=steps,
        queue=queue,
        queue_name=_name_queue(queue_filter, queue),
        number=number,
        is_open=is_open,
        has_nights=queue_filter.nights > 1,
        **_queue_links(run_id, queue_filter, number, len(queue.items)),
        last=last,
        **answer,
    )


def _trace_in_api(answer: Mapping[str, Any]) -> str:
    """The address of the trace of an answer."""
    return f"/benchmark-runs{path_of(answer['run'].id)}/traces{path_of(answer['trace'].trace_id)}"


def _queue_links(
    run_id: str, queue_filter: QueueFilter, number: int, length: int
) -> dict[str, Any]:
    """The pages of the answers before and after an answer, and of the first open one."""
    before = min(number, length + 1) - 1
    return {
        "before": _queue_url(run_id, queue_filter, at=before) if number > 1 else None,
        "after": _queue_url(run_id, queue_filter, at=number + 1),
        "resume": _queue_url(run_id, queue_filter),
    }


@router.post("/runs/{runId}/annotations", dependencies=RUN)
def create_annotation(request: Request, run_id: RunId, form: SentForm, res: Res) -> Response:
    """Judge an answer, on its page or in a queue; `next` is the page that follows."""
    body = _read_annotation(form)
    with res.db.begin() as session:
        service.save_annotation(session, run_id, body, get_caller(request).key_id, res.clock())
    return see_other(
        local_path(form.text("next"), path_of("runs", run_id, "traces", body.trace_id))
    )


@router.post("/annotations/{annotationId}/delete", dependencies=RUN)
def delete_annotation(
    request: Request, annotation_id: AnnotationId, form: SentForm, res: Res
) -> Response:
    """Delete an annotation of one's own; admins delete any."""
    caller = get_caller(request)
    with res.db.begin() as session:
        service.delete_annotation(session, annotation_id, caller.key_id, caller.role)
    return see_other(local_path(form.text("next", "/")))


@router.get("/runs/{runId}/annotations", dependencies=READ)
def show_run_annotations(request: Request, run_id: RunId, res: Res) -> Response:
    """What annotators say of a run, how far they agree, and the queues of its answers."""
    with res.db.read() as session:
        run = get_run(session, run_id)
        steps = list_crumbs(session, run)
    scope = SummaryScope.unchecked(run_id=run_id)
    return _show_summary(request, res, scope, run, steps)


@router.get("/benchmarks/{benchmarkId}/annotations", dependencies=READ)
def show_benchmark_annotations(
    request: Request,
    benchmark_id: BenchmarkId,
    res: Res,
    chosen: Annotated[str, Query(alias="run", max_length=200)] = "",
) -> Response:
    """What annotators say of the answers of a benchmark in all its runs, and the queues of its newest run, or of the chosen
    one.
    """
    with res.db.read() as session:
        name = get_benchmark(session, benchmark_id).display_name
        runs = list_newest_runs(session, benchmark_id, SHOWN_RUNS)
        run = get_run(session, chosen) if chosen else next(iter(runs), None)
        if run is not None and run.benchmark_id != benchmark_id:
            raise Invalid(f"the run {chosen} is of another benchmark; choose one of this benchmark")
        names = add_agent_names(session, {}, {row.agent_id for row in runs})
    choices = [
        (
            row.id,
            f"{format_instant(row.created_at, reader_zone(request), res.clock())} · {names[row.agent_id]}",
        )
        for row in runs
    ]
    steps = [Crumb("Benchmarks", "/benchmarks"), Crumb(name, path_of("benchmarks", benchmark_id))]
    scope = SummaryScope.unchecked(benchmark_id=benchmark_id)
    return _show_summary(request, res, scope, run, steps, choices)


@router.get("/benchmarks/{benchmarkId}/judges", dependencies=READ)
def show_judges(request: Request, benchmark_id: BenchmarkId, res: Res) -> Response:
    """The judges of a benchmark against people."""
    with res.db.read() as session:
        name = get_benchmark(session, benchmark_id).display_name
    return render_page(
        request,
        "judges.html",
        title=f"Judges of {name}",
        nav="/benchmarks",
        api=path_of("benchmarks", benchmark_id, "judges"),
        steps=[
            Crumb("Benchmarks", "/benchmarks"),
            Crumb(name, path_of("benchmarks", benchmark_id)),
        ],
        annotations_url=f"{path_of('benchmarks', benchmark_id)}/annotations",
        judges=list_judges(res.db, benchmark_id),
    )


def _show_summary(
    request: Request,
    res: Res,
    scope: SummaryScope,
    run: BenchmarkRun | None,
    steps: list[Crumb],
    choices: Sequence[tuple[str, str]] = (),
) -> Response:
    summary = summarize(res.db, scope)
    ids = {"runId": scope.run_id, "benchmarkId": scope.benchmark_id}
    return render_page(
        request,
        "annotations.html",
        title=f"Annotations of {steps[-1].text}",
        nav="/runs" if scope.run_id else "/benchmarks",
        api=build_url("/annotations/summary", ids),
        api_parts={"list": build_url("/annotations", ids)}
        | ({"run": path_of("benchmark-runs", scope.run_id)} if scope.run_id else {}),
        csv_url=build_url("/api/v1/annotations.csv", ids),
        steps=steps,
        run=run if run and not run.purged_at and run.collection_id is not None else None,
        choices=choices,
        traces=run.traces_collected if run and scope.run_id else None,
        metrics=list(list_rated_metrics(run)) if run else [],
        summary=summary,
    )


def _load_answer(session: Session, answer: QueuedAnswer, annotator: str) -> dict[str, Any]:
    """The values of an answer. Nothing marks it as right or wrong: the annotator shall judge it first."""
    run = get_run_with_traces(session, answer.run_id)
    detail = get_trace(session, run, answer.trace_id)
    return {
        "run": run,
        "trace": detail.trace,
        "input": cut_text(detail.trace.input),
        "output": cut_text(detail.trace.output),
        "error": cut_text(detail.trace.error),
        "references": list_references(detail.trace),
        "calls": list_calls(detail.trace, detail.transcript),
        "usage": list_usage(detail.trace),
        "values": list_values(run.metric_keys or [], detail.result),
        "own": find_own_annotation(session, run.id, detail.trace.trace_id, annotator),
    }


def _find_last(
    session: Session, queue: AnnotationQueueView, number: int, annotator: str
) -> Annotation | None:
    """What the annotator says of the answer before, which can be undone; None where they skipped it."""
    before = queue.items[: number - 1][-1:]
    if not before or number > len(queue.items) + 1:
        return None
    return find_own_annotation(session, before[0].run_id, before[0].trace_id, annotator)


def _first_open(queue: AnnotationQueueView) -> int:
    """The number of the first answer that is not judged; the one after the last when all are."""
    numbers = (number for number, item in enumerate(queue.items, 1) if item.judgement is None)
    return next(numbers, len(queue.items) + 1)


def _name_queue(queue_filter: QueueFilter, queue: AnnotationQueueView) -> str:
    if queue_filter.queue is QueueKind.JUDGES and queue.first:
        return f"where {queue.first} and {queue.second} disagree"
    name = QUEUE_NAMES[queue_filter.queue]
    is_named = queue_filter.queue is QueueKind.SAMPLE and queue_filter.name
    return f"{name} named {queue_filter.name!r}" if is_named else name


def _parameters(queue_filter: QueueFilter) -> dict[str, Any]:
    """The parameters of an address with this queue."""
    return queue_filter.model_dump(mode="json", exclude_defaults=True)


def _queue_url(run_id: str, queue_filter: QueueFilter, **changes: Any) -> str:
    return build_url(f"{path_of('runs', run_id)}/annotate", _parameters(queue_filter), **changes)


def _read_annotation(form: FormFields) -> AnnotationCreate:
    """The annotation of a form. Raises: `Invalid`."""
    checked = check_form(
        AnnotationCreate,
        {
            "traceId": form.text("traceId"),
            "judgement": form.text("judgement"),
            "score": number_or_text(form.text("score")),
            "correctedAnswer": form.text("correctedAnswer"),
            "note": form.text("note"),
            "expectedIsWrong": form.text("expectedIsWrong") == "true",
        },
    )
    if checked.body is None:
        raise Invalid("; ".join(f"{name} {error}" for name, error in checked.errors.items()))
    return checked.body
