"""Renders a run as one self-contained HTML page: KPIs, metrics, alerts and the worst traces.

The page has no script and no external resource, and all texts of users are escaped.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from app.comparison.trial_statistics import list_trial_statistics
from app.core.text import html_page, html_text, shorten
from app.core.web.charts import sparkline
from app.core.web.page_paths import alert_page_path, run_page_path
from app.kpis.number_text import format_number

JSON = dict[str, Any]

MAX_WORST_TRACES: Final = 10
MAX_TEXT_CHARS: Final = 300
HIGHER_IS_BETTER: Final = "HIGHER_IS_BETTER"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """A run and its data, as the API returns them.

    `history` holds the values of each KPI up to this run, by KPI ID, oldest first. `results` are the
    traces of the run, `direction` is the direction of its first metric. `public_url` is the base of
    links to this service. `categories` are the values by category, empty without categories.
    """

    run: JSON
    metrics: Sequence[JSON]
    kpis: Sequence[JSON]
    history: dict[str, list[float]]
    alerts: Sequence[JSON]
    results: Sequence[JSON]
    direction: str
    public_url: str
    categories: Sequence[JSON] = ()


class HtmlFragment(NamedTuple):
    """A table cell that is HTML already and needs no escaping."""

    markup: str


Cell: TypeAlias = str | HtmlFragment
RowBuilder: TypeAlias = Callable[[JSON], tuple[Cell, ...]]


def html_report(report: RunReport) -> str:
    """The page: the run, its KPIs, metrics, alerts and worst traces."""
    run = report.run
    return html_page(
        f"{run['benchmarkId']}: {run['agentId']}, {run['runName'] or run['id']}",
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


def worst_results(results: Sequence[JSON], metric: str, direction: str) -> list[JSON]:
    """The traces to look at first: failed traces, then those with the worst values."""
    sign = 1 if direction == HIGHER_IS_BETTER else -1

    def rank(result: JSON) -> tuple[bool, float, str]:
        value = result["values"].get(metric)
        is_scored = result["outcome"] == "scored"
        return is_scored, sign * value if value is not None else 0.0, result["traceId"]

    candidates = [result for result in results if _is_candidate(result, metric)]
    return sorted(candidates, key=rank)[:MAX_WORST_TRACES]


KPI_TITLES = ("KPI", "Value", "95 % CI", "Verdict", "Within thresholds", "History", "Formula")
METRIC_TITLES = ("Metric", "Mean", "95 % CI", "n", "Coverage", "p50", "p95", "Missing")
REPEATS_TITLES = ("Metric", "k", "pass@k", "pass^k", "At least k", "Items")
ALERT_TITLES = ("State", "Alert", "Severity", "Why", "Traces")


def _facts(report: RunReport) -> Iterable[tuple[Cell, ...]]:
    run = report.run
    yield "Run", _link(f"{report.public_url}{run_page_path(run['id'])}", run["id"])
    yield (
        "Status",
        run["status"] if not run["errorCode"] else f"{run['status']}: {run['errorCode']}",
    )
    if run["errorMessage"]:
        yield "Error", run["errorMessage"]
    yield "Validity", "; ".join([run["validity"] or "–", *(run["validityReasons"] or [])])
    if run.get("sourceWarning"):
        yield "Traces of the source", run["sourceWarning"]
    yield "Verdict", _verdict(run)
    yield "Coverage", _share(run["coverage"])
    yield "Errors", _share(run["errorShare"])
    yield "Traces", f"{run['tracesProcessed']} of {_number(run['tracesTotal'])}"
    yield "Started", run["startedAt"] or "–"
    yield "Completed", run["completedAt"] or "–"


def _kpi(report: RunReport) -> RowBuilder:
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
            HtmlFragment(sparkline(report.history.get(kpi["kpiId"], []))),
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


def _alert(report: RunReport) -> RowBuilder:
    def row(alert: JSON) -> tuple[Cell, ...]:
        return (
            alert["state"],
            _link(f"{report.public_url}{alert_page_path(alert['id'])}", alert["name"]),
            alert["severity"],
            alert["explanation"],
            HtmlFragment(
                "<br>".join(_trace(trace).markup for trace in alert["contributingTraces"])
            ),
        )

    return row


def _repeats(report: RunReport) -> Iterable[str]:
    rows = [
        (
            statistics["metric"],
            str(statistics["k"]),
            *(_number(statistics[name]) for name in ("passAtK", "passHatK", "atLeastK")),
            str(statistics["items"]),
        )
        for statistics in list_trial_statistics(report.metrics)
    ]
    if rows:
        yield from _section("Repeats", REPEATS_TITLES, rows)


def _categories(report: RunReport) -> Iterable[str]:
    """A row per category, a column per KPI and metric; nothing without categories."""
    if not report.categories:
        return
    columns = dict.fromkeys(
        row.get("name") or row["metric"]
        for category in report.categories
        for row in (*category["kpis"], *category["metrics"])
    )
    rows = [
        (category["category"], str(category["items"]), *_category_cells(category, columns))
        for category in report.categories
    ]
    yield from _section("By category", ("Category", "Items", *columns), rows)


def _category_cells(category: JSON, columns: Iterable[str]) -> Iterable[str]:
    by_name = {
        row.get("name") or row["metric"]: row for row in (*category["kpis"], *category["metrics"])
    }
    for name in columns:
        row = by_name.get(name)
        is_known = row is not None and row["value"] is not None
        yield f"{_number(row['value'])} ({_interval(row)})" if row and is_known else "–"


def _trace(trace: JSON) -> HtmlFragment:
    return _link(trace["url"], trace["traceId"])


def _worst(report: RunReport) -> Iterable[str]:
    if not report.metrics:
        return
    metric = report.metrics[0]["metric"]
    worst = worst_results(report.results, metric, report.direction)
    titles = ("Trace", "Outcome", metric, "Input", "Expected", "Output")
    rows = [
        (
            _trace(result),
            result["outcome"],
            _number(result["values"].get(metric)),
            *(
                shorten(result[name] or "", MAX_TEXT_CHARS)
                for name in ("input", "expectedOutput", "output")
            ),
        )
        for result in worst
    ]
    yield from _section(f"Worst of {len(report.results)} traces by {metric}", titles, rows)


def _is_candidate(result: JSON, metric: str) -> bool:
    return result["outcome"] != "scored" or result["values"].get(metric) is not None


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


def _verdict(row: JSON) -> str:
    verdict = row["verdict"] or {}
    return str(verdict.get("explanation") or verdict.get("verdict") or verdict.get("reason") or "–")


def _interval(row: JSON) -> str:
    low, high = row["intervalLow"], row["intervalHigh"]
    return "–" if low is None or high is None else f"{_number(low)} to {_number(high)}"


def _share(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def _number(value: float | None) -> str:
    return "–" if value is None else format_number(value)
