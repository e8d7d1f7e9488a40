"""Pages of the traces of a run: the list, one trace with its transcript, an item in two runs."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request, Response
from sqlalchemy.orm import Session

from mosaico.access.deps import READ
from mosaico.agents.models import Agent
from mosaico.benchmarks.models import Benchmark
from mosaico.core.errors import Invalid
from mosaico.core.keyset import PageRows
from mosaico.core.text import format_number, shorten
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.page_filters import FilterField
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.pages import Crumb, build_url, list_in_api, render_page
from mosaico.core.web.query_parameters import ListQuery
from mosaico.core.web.routes import Router
from mosaico.run_store import trace_list
from mosaico.run_store.models import BenchmarkRun, TraceResult
from mosaico.run_store.queries import get_run_with_traces, get_trace
from mosaico.run_store.trace_list import TraceListFilter
from mosaico.runs.pages.trace_texts import (
    TextDiff,
    compare_texts,
    count_omitted,
    cut_text,
    list_shown_steps,
)
from mosaico.traces.models import CollectedTrace

router = Router()

TRIALS_OF_PAGE = 6
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
        # A filter that is wrong selects nothing: rows of another one would look like its result.
        page = (
            PageRows[trace_list.ListedTrace]([], None)
            if mistake
            else trace_list.search_traces(session, run, trace_filter, query)
        )
        count = None if mistake else trace_list.count_traces(session, run, trace_filter)
        steps = _crumbs(session, run)
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
            _trace_row(run, columns, visible[:MAX_METRICS], trace, shown_filter)
            for trace in page.rows
        ],
        is_filtered=bool(shown_filter),
        filters=[FilterField(name, [value]) for name, value in shown_filter.items()],
        mistake=mistake,
        status=HTTPStatus.UNPROCESSABLE_ENTITY if mistake else HTTPStatus.OK,
        next_cursor=page.next_cursor,
        searched_rows=page.searched_rows,
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
        neighbors = trace_list.find_neighbors(session, run, trace.position, trace_filter)
        traces = build_url(f"{path_of('runs', run_id)}/traces", shown_filter)
        steps = [*_crumbs(session, run), Crumb("Traces", traces)]
        baseline = run.verdict.baseline.run_ids[0] if run.verdict and run.verdict.baseline else None
    return render_page(
        request,
        "trace.html",
        title=trace.item_id,
        nav="/runs",
        api=f"/benchmark-runs{path_of(run_id)}/traces{path_of(trace_id)}",
        run=run,
        steps=steps,
        trace=trace,
        input=cut_text(trace.input),
        error=cut_text(trace.error),
        diff=_diff(trace.expected_output, trace.output),
        references=_references(trace),
        values=_values(run.metric_keys or [], detail.result),
        usage=_usage(trace),
        transcript=list_shown_steps(detail.transcript),
        omitted=count_omitted(detail.transcript),
        source_url=_safe_url(trace.url),
        before=_trace_url(run, neighbors.before, shown_filter),
        after=_trace_url(run, neighbors.after, shown_filter),
        is_filtered=bool(shown_filter),
        baseline=baseline,
    )


@router.get("/runs/{runId}/items", dependencies=READ)
def show_item(
    request: Request,
    run_id: RunId,
    res: Res,
    item: Annotated[str, Query(max_length=1000)],
    base: Annotated[str, Query(max_length=200)],
    first_trial: Annotated[int, Query(alias="trial", ge=1)] = 1,
) -> Response:
    """An item in two runs, trial by trial, side by side; a page of trials from the number `trial` on."""
    with res.db.read() as session:
        run, baseline = (get_run_with_traces(session, compared) for compared in (run_id, base))
        numbers = trace_list.list_trials_of_item(session, (baseline, run), item)
        requested_numbers = [number for number in numbers if number + 1 >= first_trial]
        page_numbers, later = requested_numbers[:TRIALS_OF_PAGE], requested_numbers[TRIALS_OF_PAGE:]
        before, now = (
            trace_list.get_traces_of_item(session, compared, item, page_numbers)
            for compared in (baseline, run)
        )
        steps = _crumbs(session, run)
    trials = [
        _trial(baseline, run, number, before.get(number), now.get(number))
        for number in page_numbers
    ]
    first = next((trace for side in (before, now) for trace, _ in side.values()), None)
    return render_page(
        request,
        "item.html",
        title=item,
        nav="/runs",
        api=build_url(f"/benchmark-runs{path_of(run_id)}/results", itemId=item),
        api_parts={
            "run": path_of("benchmark-runs", run_id),
            "baseline": path_of("benchmark-runs", base),
            "results of the baseline": build_url(
                f"{path_of('benchmark-runs', base)}/results", itemId=item
            ),
        },
        run=run,
        baseline=baseline,
        steps=steps,
        item=item,
        input=cut_text(first.input if first else None),
        expected=cut_text(first.expected_output if first else None),
        references=_references(first),
        trials=trials,
        trial_count=len(numbers),
        next_trial=later[0] + 1 if later else None,
        shown_metrics=MAX_METRICS,
    )


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


def _crumbs(session: Session, run: BenchmarkRun) -> list[Crumb]:
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
) -> dict[str, Any]:
    values = dict(zip(columns, trace.values or [], strict=False))
    return {
        "trace": trace,
        "input": _beginning(trace.input),
        "answer": _beginning(trace.output or trace.error),
        "url": _trace_url(run, trace.trace_id, shown_filter),
        "values": [_number(values.get(column)) for column in visible],
    }


def _beginning(text: str | None) -> str:
    return shorten(text or "", trace_list.PREVIEW_CHARS)


def _number(value: float | None) -> str | None:
    return None if value is None else format_number(value)


def _references(trace: CollectedTrace | None) -> dict[str, Any] | None:
    """All expected answers of a trace that has several, and what they mean; None for another trace."""
    if trace is None or not (trace.expected_any or trace.expected_all):
        return None
    texts = trace.expected_any or trace.expected_all or []
    rule = "one of them is enough" if trace.expected_any else "an answer must fit all of them"
    return {"rule": rule, "texts": [cut_text(text) for text in texts]}


def _diff(left: str | None, right: str | None) -> TextDiff:
    return compare_texts(cut_text(left) or "", cut_text(right) or "")


def _values(columns: list[str], result: TraceResult | None) -> list[dict[str, Any]]:
    """The values of a trace with the reason of a missing one, or that of the judge."""
    if result is None:
        return []
    notes = result.notes or {}
    return [
        {
            "metric": column,
            "value": _number(value),
            "why": ", ".join(
                f"{key}: {text}" for key, text in notes.get(column, {}).items() if text
            ),
        }
        for column, value in zip(columns, result.values, strict=True)
    ]


def _usage(trace: CollectedTrace) -> list[tuple[str, str]]:
    """Tokens, cost, latency and turns, as far as the source reports them."""
    numbers = (
        ("Latency", trace.latency_ms, " ms"),
        ("Input tokens", trace.input_tokens, ""),
        ("Output tokens", trace.output_tokens, ""),
        ("Cost", trace.cost_usd, " USD"),
        ("Turns", trace.turns, ""),
    )
    return [
        (name, f"{format_number(value)}{unit}")
        for name, value, unit in numbers
        if value is not None
    ]


def _safe_url(url: str | None) -> str | None:
    """A link to the source; none for another scheme, because sources are not trusted."""
    return url if url and url.startswith(("https://", "http://")) else None


def _trial(
    baseline: BenchmarkRun,
    run: BenchmarkRun,
    number: int,
    before: tuple[CollectedTrace, TraceResult | None] | None,
    now: tuple[CollectedTrace, TraceResult | None] | None,
) -> dict[str, Any]:
    """One trial in both runs; a side is None where the run has no trial of this number."""
    sides = [
        None if pair is None else {
            "trace": pair[0],
            "url": path_of("runs", of_run.id, "traces", pair[0].trace_id),
            "values": _values(of_run.metric_keys or [], pair[1]),
        }
        for of_run, pair in ((baseline, before), (run, now))
    ]  # fmt: skip
    texts = [_answer(pair[0]) if pair else "" for pair in (before, now)]
    return {"number": number, "before": sides[0], "now": sides[1], "diff": _diff(*texts)}


def _answer(trace: CollectedTrace) -> str:
    return trace.output or trace.error or ""
