"""Pages of the traces of a run: the list, and one trace with its conversation."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request, Response
from sqlalchemy.orm import Session

from mosaico.access.deps import READ, get_caller
from mosaico.agents.models import Agent
from mosaico.annotations.queries import find_own_annotation, list_shown_annotations
from mosaico.benchmarks.models import Benchmark
from mosaico.comparison.deciding_metric import NOTHING_DECIDES, find_deciding_metric
from mosaico.core.errors import Invalid
from mosaico.core.keyset import PageRows
from mosaico.core.text import shorten
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.page_filters import FilterField
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.pages import Crumb, build_url, list_in_api, render_page
from mosaico.core.web.query_parameters import ListQuery
from mosaico.core.web.routes import Router
from mosaico.harness.transcript import TranscriptToolCall
from mosaico.run_store import trace_list
from mosaico.run_store.deciding_metric import DecidingMetric, is_right_answer
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.queries import TraceDetail, get_run_with_traces, get_trace
from mosaico.run_store.trace_list import TraceListFilter
from mosaico.runs.dataset_items import name_dataset
from mosaico.runs.pages.trace_parts import (
    ShownCall,
    conversation_of,
    list_calls,
    list_references,
    list_usage,
    list_values,
    mark_output,
    time_bars,
    write_number,
)
from mosaico.runs.pages.trace_texts import count_omitted, cut_text, list_shown_steps

router = Router()

# Columns of a list; beside a trace, the metrics after these are folded.
MAX_METRICS = 4

RunId = Annotated[str, Path(alias="runId")]
TraceId = Annotated[str, Path(alias="traceId")]
Text = Annotated[str, Query(max_length=500)]


@dataclass(frozen=True, slots=True)
class TypedFilter:
    """The filter of a list of traces, as it is in an address."""

    metric: Text = ""
    below: Text = ""
    state: Text = ""
    text: Text = ""
    item: Annotated[str, Query(max_length=1000)] = ""


Typed = Annotated[TypedFilter, Depends()]


@router.get("/runs/{runId}/traces", dependencies=READ)
def show_traces(
    request: Request,
    run_id: RunId,
    res: Res,
    query: ListQuery,
    typed: Typed,
) -> Response:
    """The traces of a run, by what went wrong."""
    with res.db.read() as session:
        run = get_run_with_traces(session, run_id)
        columns = run.metric_keys or []
        trace_filter, mistake = _read_filter(columns, typed)
        decider = find_deciding_metric(session, run)
        if trace_filter.state == "wrong" and decider is None:
            mistake = NOTHING_DECIDES
        # A filter that is wrong selects nothing: rows of another one would look like its result.
        page = (
            PageRows[trace_list.ListedTrace]([], None)
            if mistake
            else trace_list.search_traces(session, run, trace_filter, query, decider)
        )
        count = None if mistake else trace_list.count_traces(session, run, trace_filter, decider)
        steps = list_crumbs(session, run)
    visible = [column for column in dict.fromkeys([trace_filter.metric, *columns]) if column]
    shown_filter = _shown_filter(typed)
    return render_page(
        request,
        "traces.html",
        title=f"Traces of {steps[-1].text}",
        nav="/runs",
        api=list_in_api(
            request,
            f"/benchmark-runs{path_of(run_id)}/results",
            {"below": "below", "state": "state", "text": "text", "item": "itemId"},
            metric=trace_filter.metric,
        ),
        api_parts={"run": path_of("benchmark-runs", run_id)},
        run=run,
        steps=steps,
        count=_count_text(run, count) if count else "",
        columns=columns,
        visible=visible[:MAX_METRICS],
        rows=[
            _trace_row(run, columns, visible[:MAX_METRICS], trace, shown_filter, decider)
            for trace in page.rows
        ],
        rule=f"right or wrong by {decider.column}" if decider else NOTHING_DECIDES,
        is_filtered=bool(shown_filter),
        filters=[FilterField(name, [value]) for name, value in shown_filter.items()],
        mistake=mistake,
        status=HTTPStatus.UNPROCESSABLE_ENTITY if mistake else HTTPStatus.OK,
        next_cursor=page.next_cursor,
    )


@router.get("/runs/{runId}/traces/{traceId:path}", dependencies=READ)
def show_trace(
    request: Request,
    run_id: RunId,
    trace_id: TraceId,
    res: Res,
    typed: Typed,
) -> Response:
    """Show one trace: input, expected output and output, its values, and every step of the
    agent. The traces before and after it are those of the list with the same filter.
    """
    shown_filter = _shown_filter(typed)
    with res.db.read() as session:
        run = get_run_with_traces(session, run_id)
        detail = get_trace(session, run, trace_id)
        trace = detail.trace
        trace_filter, mistake = _read_filter(run.metric_keys or [], typed)
        if mistake:
            raise Invalid(mistake)
        decider = find_deciding_metric(session, run)
        neighbors = trace_list.find_neighbors(session, run, trace.position, trace_filter, decider)
        traces = build_url(f"{path_of('runs', run_id)}/traces", shown_filter)
        steps = [*list_crumbs(session, run), Crumb("Traces", traces)]
        annotated = list_shown_annotations(session, run_id=[run.id], trace_id=trace.trace_id)
        own = find_own_annotation(session, run.id, trace.trace_id, get_caller(request).key_id)
        baseline = run.verdict.baseline.run_ids[0] if run.verdict and run.verdict.baseline else None
        dataset_name = name_dataset(session, run)
    right = is_right_answer(run.metric_keys or [], detail.result, decider)
    shown_steps = list_shown_steps(conversation_of(trace, detail.transcript))
    bars = time_bars([step.duration_ms for step in shown_steps])
    return render_page(
        request,
        "trace.html",
        title=trace.item_id,
        nav="/runs",
        api=f"/benchmark-runs{path_of(run_id)}/traces{path_of(trace_id)}",
        api_parts={"annotations": build_url("/annotations", runId=run_id, traceId=trace_id)},
        run=run,
        steps=steps,
        trace=trace,
        input=cut_text(trace.input),
        error=cut_text(trace.error),
        is_right=right,
        answer=mark_output(trace, is_right=right),
        references=list_references(trace),
        values=list_values(run.metric_keys or [], detail.result),
        usage=list_usage(trace),
        attributes=trace.attributes or {},
        scores=trace.scores or {},
        conversation=list(zip(shown_steps, bars, strict=True)),
        has_transcript=detail.transcript is not None,
        calls=_calls_beside(detail),
        omitted=count_omitted(detail.transcript),
        source_url=safe_url(trace.url),
        before=_trace_url(run, neighbors.before, shown_filter),
        after=_trace_url(run, neighbors.after, shown_filter),
        is_filtered=bool(shown_filter),
        baseline=baseline,
        dataset_name=dataset_name,
        annotated=annotated,
        own=own,
        here=_trace_url(run, trace_id, shown_filter),
    )


def _calls_beside(detail: TraceDetail) -> list[ShownCall]:
    """The tool calls of a trace whose transcript has none."""
    steps = detail.transcript.steps if detail.transcript else ()
    is_beside = detail.transcript and not any(isinstance(s, TranscriptToolCall) for s in steps)
    return list_calls(detail.trace, None) if is_beside else []


def _read_filter(columns: list[str], typed: TypedFilter) -> tuple[TraceListFilter, str | None]:
    """The filter of the address, and what is wrong with it. Without a metric it is about the first one."""
    limit, mistake = _read_limit(typed.below)
    needs_metric = typed.below or typed.state == "missing"
    shown_metric = typed.metric or (columns[0] if columns and needs_metric else "")
    trace_filter = TraceListFilter.unchecked(
        metric=shown_metric or None,
        below=limit,
        state=typed.state,
        text=typed.text.strip() or None,
        item_id=typed.item.strip() or None,
    )
    return trace_filter, mistake


def _shown_filter(typed: TypedFilter) -> dict[str, str]:
    """The parameters of the filter in an address; empty without a filter."""
    return {name: text for name, value in asdict(typed).items() if (text := value.strip())}


def _count_text(run: BenchmarkRun, count: trace_list.TraceCount) -> str:
    """How many traces match, of how many."""
    total = run.traces_total or run.traces_collected
    traces = "1 trace" if total == 1 else f"{total:,} traces"
    if count.is_exact:
        return traces if count.number == total else f"{count.number:,} of {traces}"
    return f"at least {count.number:,} of {traces}"


def _trace_url(
    run: BenchmarkRun, trace_id: str | None, shown_filter: Mapping[str, str]
) -> str | None:
    """The page of a trace, which keeps the filter of the list; None without a trace."""
    if trace_id is None:
        return None
    return build_url(path_of("runs", run.id, "traces", trace_id), shown_filter)


def _read_limit(text: str) -> tuple[float | None, str | None]:
    """The limit that a reader wrote, None without one, and what is wrong with it."""
    if not text:
        return None, None
    try:
        limit = float(text.replace(",", "."))
    except ValueError:
        limit = math.nan
    if math.isfinite(limit):
        return limit, None
    return None, f"{text!r} is not a number; write the limit as 0.5"


def list_crumbs(session: Session, run: BenchmarkRun) -> list[Crumb]:
    agent = session.get_one(Agent, run.agent_id).name
    benchmark = session.get_one(Benchmark, run.benchmark_id).display_name
    return [
        Crumb("Runs", "/runs"),
        Crumb(f"{agent} on {benchmark}", path_of("runs", run.id)),
    ]


def _trace_row(
    run: BenchmarkRun,
    columns: list[str],
    visible: list[str],
    trace: trace_list.ListedTrace,
    shown_filter: Mapping[str, str],
    decider: DecidingMetric | None,
) -> dict[str, Any]:
    values = dict(zip(columns, trace.values or [], strict=False))
    return {
        "trace": trace,
        "input": _beginning(trace.input),
        "answer": _beginning(trace.output or trace.error),
        "url": _trace_url(run, trace.trace_id, shown_filter),
        "is_right": decider.is_right(values.get(decider.column)) if decider else None,
        "values": [write_number(values.get(column)) for column in visible],
    }


def _beginning(text: str | None) -> str:
    return shorten(text or "", trace_list.PREVIEW_CHARS)


def safe_url(url: str | None) -> str | None:
    """A link to the source; none for another scheme, because sources are not trusted."""
    return url if url and url.startswith(("https://", "http://")) else None
