"""Renders a run as one self-contained HTML page: KPIs, metrics, alerts and the worst traces.

The page has no script and no external resource, and all texts of users are escaped.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple, TypeAlias

from app.alerts.schemas import AlertView
from app.comparison.schemas import CategoryKpi, CategoryMetric, CategoryValues
from app.core.text import html_page, html_text, shorten
from app.core.web.charts import sparkline
from app.core.web.page_paths import alert_page_path, run_page_path
from app.kpis.number_text import format_number
from app.kpis.schemas import KpiValueView
from app.kpis.verdict_types import RunVerdict, ValueVerdict
from app.metrics.types import Direction
from app.runs.schemas import MetricAggregateView, RunView, TraceResultView
from app.traces.types import TraceOutcome

MAX_WORST_TRACES: Final = 10
MAX_TEXT_CHARS: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """A run and its data.

    `history` holds the values of each KPI up to this run, by KPI ID, oldest first. `results` are the
    traces of the run, `direction` is the direction of its first metric. `public_url` is the base of
    links to this service. `categories` are the values by category, empty without categories.
    """

    run: RunView
    metrics: Sequence[MetricAggregateView]
    kpis: Sequence[KpiValueView]
    history: Mapping[str, list[float]]
    alerts: Sequence[AlertView]
    results: Sequence[TraceResultView]
    direction: Direction
    public_url: str
    categories: Sequence[CategoryValues] = ()


class HtmlFragment(NamedTuple):
    """A table cell that is HTML already and needs no escaping."""

    markup: str


Cell: TypeAlias = str | HtmlFragment
KpiRow: TypeAlias = Callable[[KpiValueView], tuple[Cell, ...]]
AlertRow: TypeAlias = Callable[[AlertView], tuple[Cell, ...]]


def html_report(report: RunReport) -> str:
    """The page: the run, its KPIs, metrics, alerts and worst traces."""
    run = report.run
    return html_page(
        f"{run.benchmark_id}: {run.agent_id}, {run.run_name or run.id}",
        [
            _table((), _facts(report)),
            *_section("KPIs", KPI_TITLES, map(_kpi(report), report.kpis)),
            *_section("Metrics", METRIC_TITLES, map(_metric, report.metrics)),
            *_repeats(report),
            *_categories(report),
            *_section("Alerts", ALERT_TITLES, map(_alert(report), report.alerts)),
            *_worst(report),
        ],
    )


def worst_results(
    results: Sequence[TraceResultView], metric: str, direction: Direction
) -> list[TraceResultView]:
    """The traces to look at first: failed traces, then those with the worst values."""
    sign = 1 if direction is Direction.HIGHER_IS_BETTER else -1

    def rank(result: TraceResultView) -> tuple[bool, float, str]:
        value = result.values.get(metric)
        is_scored = result.outcome is TraceOutcome.SCORED
        return is_scored, sign * value if value is not None else 0.0, result.trace_id

    candidates = [result for result in results if _is_candidate(result, metric)]
    return sorted(candidates, key=rank)[:MAX_WORST_TRACES]


KPI_TITLES = ("KPI", "Value", "95 % CI", "Verdict", "Within thresholds", "History", "Formula")
METRIC_TITLES = ("Metric", "Mean", "95 % CI", "n", "Coverage", "p50", "p95", "Missing")
REPEATS_TITLES = ("Metric", "k", "pass@k", "pass^k", "At least k", "Items")
ALERT_TITLES = ("State", "Alert", "Severity", "Why", "Traces")


def _facts(report: RunReport) -> Iterable[tuple[Cell, ...]]:
    run = report.run
    yield "Run", _link(f"{report.public_url}{run_page_path(run.id)}", run.id)
    yield "Status", run.status if not run.error_code else f"{run.status}: {run.error_code}"
    if run.error_message:
        yield "Error", run.error_message
    yield "Validity", "; ".join([run.validity or "–", *(run.validity_reasons or [])])
    if run.source_warning:
        yield "Traces of the source", run.source_warning
    yield "Verdict", _verdict(run.verdict)
    yield "Coverage", _share(run.coverage)
    yield "Errors", _share(run.error_share)
    yield "Traces", f"{run.traces_processed} of {_number(run.traces_total)}"
    yield "Started", _instant(run.started_at)
    yield "Completed", _instant(run.completed_at)


def _kpi(report: RunReport) -> KpiRow:
    def row(kpi: KpiValueView) -> tuple[Cell, ...]:
        within = {True: "yes", False: "no", None: "–"}[kpi.within_thresholds]
        value = (
            _number(kpi.value) if kpi.value is not None else f"undefined: {kpi.undefined_reason}"
        )
        return (
            kpi.name,
            f"{value} {kpi.unit}" if kpi.unit else value,
            _interval(kpi),
            _verdict(kpi.verdict),
            within,
            HtmlFragment(sparkline(report.history.get(kpi.kpi_id, []))),
            kpi.formula,
        )

    return row


def _metric(metric: MetricAggregateView) -> tuple[Cell, ...]:
    return (
        metric.metric,
        _number(metric.mean),
        _interval(metric),
        f"{metric.n} of {metric.expected}",
        _share(metric.coverage),
        _number(metric.p50),
        _number(metric.p95),
        ", ".join(f"{reason} × {count}" for reason, count in metric.missing.items()),
    )


def _alert(report: RunReport) -> AlertRow:
    def row(alert: AlertView) -> tuple[Cell, ...]:
        links = [_link(trace.url, trace.trace_id).markup for trace in alert.contributing_traces]
        return (
            alert.state,
            _link(f"{report.public_url}{alert_page_path(alert.id)}", alert.name),
            alert.severity,
            alert.explanation,
            HtmlFragment("<br>".join(links)),
        )

    return row


def _repeats(report: RunReport) -> Iterable[str]:
    rows = [
        (
            metric.metric,
            str(trials.k),
            *map(_number, (trials.pass_at_k, trials.pass_hat_k, trials.at_least_k)),
            str(trials.items),
        )
        for metric in report.metrics
        if metric.verdict
        for trials in metric.verdict.repeats
    ]
    if rows:
        yield from _section("Repeats", REPEATS_TITLES, rows)


def _categories(report: RunReport) -> Iterable[str]:
    """A row per category, a column per KPI and metric; nothing without categories."""
    if not report.categories:
        return
    columns = dict.fromkeys(name for values in report.categories for name in _by_name(values))
    rows = [
        (values.category, str(values.items), *_category_cells(values, columns))
        for values in report.categories
    ]
    yield from _section("By category", ("Category", "Items", *columns), rows)


def _by_name(values: CategoryValues) -> dict[str, CategoryKpi | CategoryMetric]:
    by_kpi = {kpi.name: kpi for kpi in values.kpis}
    return by_kpi | {metric.metric: metric for metric in values.metrics}


def _category_cells(values: CategoryValues, columns: Iterable[str]) -> Iterable[str]:
    by_name = _by_name(values)
    for name in columns:
        row = by_name.get(name)
        is_known = row is not None and row.value is not None
        yield f"{_number(row.value)} ({_interval(row)})" if row and is_known else "–"


def _worst(report: RunReport) -> Iterable[str]:
    if not report.metrics:
        return
    metric = report.metrics[0].metric
    rows: list[tuple[Cell, ...]] = [
        (
            _link(result.url, result.trace_id),
            result.outcome,
            _number(result.values.get(metric)),
            *(
                shorten(text or "", MAX_TEXT_CHARS)
                for text in (result.input, result.expected_output, result.output)
            ),
        )
        for result in worst_results(report.results, metric, report.direction)
    ]
    titles = ("Trace", "Outcome", metric, "Input", "Expected", "Output")
    yield from _section(f"Worst of {len(report.results)} traces by {metric}", titles, rows)


def _is_candidate(result: TraceResultView, metric: str) -> bool:
    return result.outcome is not TraceOutcome.SCORED or result.values.get(metric) is not None


def _section(title: str, titles: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Iterable[str]:
    all_rows = list(rows)
    yield f"<h2>{html_text(title)}</h2>"
    yield _table(titles, all_rows) if all_rows else "<p>none</p>"


def _table(titles: Iterable[str], rows: Iterable[Sequence[Cell]]) -> str:
    head = "".join(f"<th>{html_text(title)}</th>" for title in titles)
    body = "\n".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(cell: Cell) -> str:
    return f"<td>{cell.markup if isinstance(cell, HtmlFragment) else html_text(cell)}</td>"


def _link(url: str | None, text: str) -> HtmlFragment:
    """A link; the text alone without an HTTP URL, because source URLs are not trusted."""
    if url is None or not url.startswith(("http://", "https://")):
        return HtmlFragment(html_text(text))
    return HtmlFragment(f'<a href="{html_text(url)}" rel="noreferrer">{html_text(text)}</a>')


def _verdict(verdict: RunVerdict | ValueVerdict | None) -> str:
    return verdict.explanation if verdict and verdict.explanation else "–"


def _interval(row: KpiValueView | MetricAggregateView | CategoryKpi | CategoryMetric) -> str:
    low, high = row.interval_low, row.interval_high
    return "–" if low is None or high is None else f"{_number(low)} to {_number(high)}"


def _instant(at: datetime | None) -> str:
    return "–" if at is None else at.isoformat()


def _share(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def _number(value: float | None) -> str:
    return "–" if value is None else format_number(value)
