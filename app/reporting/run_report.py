"""A run as one HTML page: what was measured, what it means, whom it alarmed. Nothing is fetched, no
script runs, and every text of a user is only shown.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from app.comparison.trial_statistics import list_trial_statistics
from app.core.text import html_page, html_text

JSON = dict[str, Any]

MOST_WORST: Final = 10
WIDTH, HEIGHT, MARGIN = 160, 28, 3
HIGHER_IS_BETTER: Final = "HIGHER_IS_BETTER"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """A run and what belongs to it, as the API answers them.

    `history` holds the values of each KPI (by its id) up to this run, oldest first, `results` the
    traces that were measured, `direction` the good side of the run's first metric; links of this
    service begin with `public_url`.
    """

    run: JSON
    metrics: Sequence[JSON]
    kpis: Sequence[JSON]
    history: dict[str, list[float]]
    alerts: Sequence[JSON]
    results: Sequence[JSON]
    direction: str
    public_url: str


class Marked(NamedTuple):
    """A piece of the page that is markup already."""

    markup: str


Cell: TypeAlias = str | Marked
Row: TypeAlias = Callable[[JSON], tuple[Cell, ...]]


def html_report(report: RunReport) -> str:
    """The run on top, then KPIs, metrics, alerts, and the traces to look at first."""
    run = report.run
    return html_page(
        f"{run['benchmarkId']}: {run['agentId']}, {run['runName'] or run['id']}",
        [
            _table((), _facts(report)),
            *_section("KPIs", KPI_TITLES, map(_kpi(report), report.kpis)),
            *_section("Metrics", METRIC_TITLES, map(_metric, report.metrics)),
            *_repeats(report),
            *_section("Alerts", ALERT_TITLES, map(_alert(report), report.alerts)),
            *_worst(report),
        ],
    )


def sparkline(values: Sequence[float]) -> str:
    """A line through values, the last of them marked; nothing of fewer than two."""
    if len(values) < 2:  # noqa: PLR2004 - a line has two ends
        return ""
    low, high = min(values), max(values)
    across = (WIDTH - 2 * MARGIN) / (len(values) - 1)
    rise = (HEIGHT - 2 * MARGIN) / (high - low) if high > low else 0.0
    points = [
        f"{MARGIN + place * across:.1f},{HEIGHT - MARGIN - (value - low) * rise:.1f}"
        for place, value in enumerate(values)
    ]
    x, y = points[-1].split(",")
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" role="img"><title>{len(values)} runs, from'
        f" {_number(low)} to {_number(high)}</title>"
        f'<polyline points="{" ".join(points)}" fill="none" stroke="currentColor"/>'
        f'<circle cx="{x}" cy="{y}" r="2.5" fill="currentColor"/></svg>'
    )


def worst_results(results: Sequence[JSON], metric: str, direction: str) -> list[JSON]:
    """The traces to look at first: those without a value because they failed, then the worst."""
    sign = 1 if direction == HIGHER_IS_BETTER else -1

    def rank(result: JSON) -> tuple[bool, float, str]:
        value = result["values"].get(metric)
        ended_well = result["outcome"] == "scored"
        return ended_well, sign * value if value is not None else 0.0, result["traceId"]

    told = [each for each in results if _is_bad(each, metric)]
    return sorted(told, key=rank)[:MOST_WORST]


KPI_TITLES = ("KPI", "Value", "95 %", "Verdict", "Within thresholds", "History", "Formula")
METRIC_TITLES = ("Metric", "Mean", "95 %", "n", "Coverage", "p50", "p95", "Missing")
REPEATS_TITLES = ("Metric", "k", "pass@k", "pass^k", "At least k", "Items")
ALERT_TITLES = ("State", "Alert", "Severity", "Why", "Traces")


def _facts(report: RunReport) -> Iterable[tuple[Cell, ...]]:
    run = report.run
    yield "Run", _link(f"{report.public_url}/api/v1/benchmark-runs/{run['id']}", run["id"])
    yield (
        "Status",
        run["status"] if not run["errorCode"] else f"{run['status']}: {run['errorCode']}",
    )
    if run["errorMessage"]:
        yield "Error", run["errorMessage"]
    yield "Validity", "; ".join([run["validity"] or "–", *(run["validityReasons"] or [])])
    yield "Verdict", _verdict(run)
    yield "Coverage", _share(run["coverage"])
    yield "Errors", _share(run["errorShare"])
    yield "Traces", f"{run['tracesProcessed']} of {_number(run['tracesTotal'])}"
    yield "Started", run["startedAt"] or "–"
    yield "Completed", run["completedAt"] or "–"


def _kpi(report: RunReport) -> Row:
    def row(kpi: JSON) -> tuple[Cell, ...]:
        within = {True: "yes", False: "no", None: "–"}[kpi["withinThresholds"]]
        value = _number(kpi["value"])
        if kpi["value"] is None:
            value = f"undefined: {kpi['undefinedReason']}"
        return (
            kpi["name"],
            f"{value} {kpi['unit']}" if kpi["unit"] else value,
            _interval(kpi),
            _verdict(kpi),
            within,
            Marked(sparkline(report.history.get(kpi["kpiId"], []))),
            kpi["formula"],
        )

    return row


def _metric(metric: JSON) -> tuple[Cell, ...]:
    missing = ", ".join(f"{reason} × {count}" for reason, count in metric["missing"].items())
    figures = [_number(metric[name]) for name in ("p50", "p95")]
    return (
        metric["metric"],
        _number(metric["mean"]),
        _interval(metric),
        f"{metric['n']} of {metric['expected']}",
        _share(metric["coverage"]),
        *figures,
        missing,
    )


def _alert(report: RunReport) -> Row:
    def row(alert: JSON) -> tuple[Cell, ...]:
        return (
            alert["state"],
            _link(f"{report.public_url}/api/v1/alerts/{alert['id']}", alert["name"]),
            alert["severity"],
            alert["explanation"],
            Marked("<br>".join(_trace(each).markup for each in alert["contributingTraces"])),
        )

    return row


def _repeats(report: RunReport) -> Iterable[str]:
    rows = [
        (
            each["metric"],
            str(each["k"]),
            *(_number(each[name]) for name in ("passAtK", "passHatK", "atLeastK")),
            str(each["items"]),
        )
        for each in list_trial_statistics(report.metrics)
    ]
    if rows:
        yield from _section("Repeats", REPEATS_TITLES, rows)


def _trace(trace: JSON) -> Marked:
    return _link(trace["url"], trace["traceId"])


def _worst(report: RunReport) -> Iterable[str]:
    if not report.metrics:
        return
    metric = report.metrics[0]["metric"]
    worst = worst_results(report.results, metric, report.direction)
    titles = ("Trace", "Outcome", metric, "Input", "Expected", "Output")
    rows = [
        (
            _trace(each),
            each["outcome"],
            _number(each["values"].get(metric)),
            *(_short(each[name]) for name in ("input", "expectedOutput", "output")),
        )
        for each in worst
    ]
    yield from _section(f"Worst of {len(report.results)} traces by {metric}", titles, rows)


def _is_bad(result: JSON, metric: str) -> bool:
    return result["outcome"] != "scored" or result["values"].get(metric) is not None


def _section(title: str, titles: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Iterable[str]:
    found = list(rows)
    yield f"<h2>{html_text(title)}</h2>"
    yield _table(titles, found) if found else "<p>none</p>"


def _table(titles: Iterable[str], rows: Iterable[Sequence[Cell]]) -> str:
    head = "".join(f"<th>{html_text(title)}</th>" for title in titles)
    body = "\n".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(cell: Cell) -> str:
    return f"<td>{cell.markup if isinstance(cell, Marked) else html_text(cell)}</td>"


def _link(url: str | None, text: str) -> Marked:
    """A text that leads to a page; a text alone where there is none."""
    if url is None or not url.startswith(("http://", "https://")):
        return Marked(html_text(text))
    return Marked(f'<a href="{html_text(url)}" rel="noreferrer">{html_text(text)}</a>')


def _verdict(of: JSON) -> str:
    verdict = of["verdict"] or {}
    return str(verdict.get("explanation") or verdict.get("verdict") or verdict.get("reason") or "–")


def _interval(of: JSON) -> str:
    low, high = of["intervalLow"], of["intervalHigh"]
    return "–" if low is None or high is None else f"{_number(low)} to {_number(high)}"


def _share(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _short(text: str | None, limit: int = 300) -> str:
    shown = text or ""
    return shown if len(shown) <= limit else shown[:limit] + "…"
