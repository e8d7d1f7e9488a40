"""The traces of a run, or of two runs side by side, as the page that the harnesses write, too."""

from collections.abc import Sequence
from typing import Final

from mosaico.core.console.api_client import ApiClient
from mosaico.core.text import format_number
from mosaico.core.web.page_paths import path_of, run_page_path
from mosaico.harness.reports.html import html_report
from mosaico.harness.reports.view import (
    AttemptStatus,
    AttemptView,
    FigureLine,
    ReportTable,
    RunReportView,
)
from mosaico.harness.transcript import Transcript, TranscriptMessage
from mosaico.kpis.schemas import KpiValueView
from mosaico.runs.schemas import MetricAggregateView, RunView, TraceView
from mosaico.traces.types import TraceOutcome

MAX_TRACES: Final = 1_000
# The tags by which the harnesses group their tasks.
GROUP_TAGS: Final = ("category:", "scenario:")
# The tag that tells the content of a task apart is not a group.
CONTENT_TAG: Final = "task:"
PASSED_METRIC: Final = "TASK_PASSED"


def load_trace_page(api: ApiClient, run_id: str, other_id: str | None) -> str:
    """Load the page of one or two runs, with a note if it is limited to the first 1,000 traces of a
    run.
    """
    views = [_view(api, chosen_id) for chosen_id in (run_id, other_id) if chosen_id is not None]
    return html_report(*views)


def _view(api: ApiClient, run_id: str) -> RunReportView:
    path = f"/benchmark-runs{path_of(run_id)}"
    run = api.read(RunView, path)
    kpis = api.read_items(KpiValueView, f"{path}/kpis")
    metrics = api.read_items(MetricAggregateView, f"{path}/metrics")
    page = api.page(f"{path}/results", limit=MAX_TRACES)
    traces = [
        api.read(TraceView, f"{path}/traces{path_of(trace['traceId'])}") for trace in page["items"]
    ]
    verdict = run.verdict.verdict if run.verdict else None
    cut = f"only the first {MAX_TRACES:,} traces are shown" if page["nextCursor"] else None
    figures = [(kpi.name, kpi.value) for kpi in kpis]
    figures += [(metric.metric, metric.mean) for metric in metrics]
    return RunReportView(
        program="mosaico",
        title=f"{run.benchmark_id}: {run.agent_id}, {run.run_name or run.id}",
        timestamp=run.created_at.isoformat(),
        note=", ".join(filter(None, (verdict, cut))),
        figures=[
            FigureLine(name, "undefined" if value is None else format_number(value))
            for name, value in figures
        ],
        tables=[],
        attempts=[_attempt(trace) for trace in traces],
        page=f"{api.pages_url}{run_page_path(run.id)}",
    )


def _attempt(trace: TraceView) -> AttemptView:
    status = _status(trace)
    values = [
        (name, format_number(value)) for name, value in trace.values.items() if value is not None
    ]
    return AttemptView(
        task=trace.item_id,
        title=trace.trace_id,
        label=_LABELS[status],
        status=status,
        group=_group(trace.tags),
        case=trace.trace_id,
        duration_s=(trace.latency_ms or 0.0) / 1000,
        error=trace.error or "",
        checks=ReportTable("Values", ("Metric", "Value"), values),
        transcript=_transcript(trace),
    )


def _group(tags: Sequence[str]) -> str:
    """The category or scenario of a trace, else its first tag; empty without tags."""
    groups = [tag for tag in tags if tag.startswith(GROUP_TAGS)]
    user_tags = [tag for tag in tags if not tag.startswith(CONTENT_TAG)]
    return next(iter([*groups, *user_tags]), "")


_LABELS: Final = {
    AttemptStatus.PASSED: "PASS",
    AttemptStatus.FAILED: "FAIL",
    AttemptStatus.NEUTRAL: "SCORED",
    AttemptStatus.ERROR: "ERROR",
}


def _status(trace: TraceView) -> AttemptStatus:
    passed = trace.scores.get(PASSED_METRIC)
    if trace.outcome in (TraceOutcome.INFRA_ERROR, TraceOutcome.JUDGE_ERROR):
        return AttemptStatus.ERROR
    if passed is not None:
        return AttemptStatus.PASSED if passed == 1 else AttemptStatus.FAILED
    return AttemptStatus.NEUTRAL if trace.outcome is TraceOutcome.SCORED else AttemptStatus.FAILED


def _transcript(trace: TraceView) -> Transcript:
    """The stored transcript; else the texts of the trace as a question and its answer."""
    if trace.transcript is not None:
        return trace.transcript
    steps = [TranscriptMessage(role="user", text=trace.input or "")]
    if trace.output is not None:
        steps.append(TranscriptMessage(role="assistant", text=trace.output))
    return Transcript(steps=tuple(steps))
