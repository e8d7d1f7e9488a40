"""The versions of an agent as its page shows them: chart, table, and two of them compared."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, Final, NamedTuple

from fastapi import Query, Request
from markupsafe import Markup

from mosaico.comparison.change_text import describe_change
from mosaico.comparison.change_view import WhatChangedView, view_changes
from mosaico.comparison.comparison_store import compare_for_page
from mosaico.comparison.schemas import Comparison
from mosaico.comparison.stored_run_comparison import ComparisonRequest
from mosaico.core.errors import Conflict, Invalid
from mosaico.core.resources import Resources
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.page_text import label_times
from mosaico.core.web.pages import build_url, reader_zone
from mosaico.core.web.trend_chart import PageChart, TrendPoint
from mosaico.core.web.version_chart import VersionPoint, version_chart, version_class
from mosaico.kpis.number_text import FigureFormat
from mosaico.overview.agent_versions import (
    DAYS,
    MAX_DAYS,
    AgentVersion,
    AgentVersions,
    read_versions,
    were_apart,
)
from mosaico.statistics.verdict_rules import Verdict

MAX_KPIS: Final = 4
PERIODS: Final = ((30, "30 days"), (60, "60 days"), (365, "1 year"))


class VersionChoice(NamedTuple):
    """What the page shows of the versions: the benchmark, the period, and the two versions to compare."""

    benchmark: str = ""
    days: int = DAYS
    a: str = ""
    b: str = ""


async def read_choice(
    benchmark: Annotated[str, Query(max_length=200)] = "",
    days: Annotated[int, Query(ge=1, le=MAX_DAYS)] = DAYS,
    a: Annotated[str, Query(max_length=20)] = "",
    b: Annotated[str, Query(max_length=20)] = "",
) -> VersionChoice:
    """The choice in the address of a page."""
    return VersionChoice(benchmark, days, a, b)


class ComparedKpi(NamedTuple):
    """A KPI of two versions with its verdict."""

    name: str
    verdict: Verdict | None
    before: str
    now: str
    change: str
    interval: str
    reason: str


class ComparedVersions(NamedTuple):
    """Two versions, the KPIs and the attributes by which they differ; `problem` says why they cannot be compared.

    While `is_pending` the comparison is being computed.
    """

    a: AgentVersion
    b: AgentVersion
    kpis: Sequence[ComparedKpi] = ()
    explanation: str = ""
    changes: WhatChangedView | None = None
    were_apart: bool = True
    problem: str = ""
    is_pending: bool = False
    url: str = ""
    api: str = ""


def read_agent_versions(
    res: Resources, agent_id: str, choice: VersionChoice, benchmark_ids: Sequence[str]
) -> AgentVersions:
    """The versions on the chosen benchmark, otherwise on the first one."""
    benchmark = choice.benchmark or next(iter(benchmark_ids), None)
    since = res.clock() - timedelta(days=choice.days)
    with res.db.read() as session:
        return read_versions(session, agent_id, benchmark, since)


def version_page(
    request: Request,
    res: Resources,
    versions: AgentVersions,
    choice: VersionChoice,
    benchmarks: Mapping[str, str],
) -> dict[str, Any]:
    """The values of the template `versions.html`."""
    address = path_of("agents", versions.agent_id)
    kpis = list(_kpi_names(versions).items())[:MAX_KPIS]
    chosen = _choose(versions, choice)
    return {
        "versions": [
            (version, version_class(number), _cells(version, [id_ for id_, _ in kpis], versions))
            for number, version in enumerate(versions.versions)
        ],
        "version_kpis": [name for _, name in kpis],
        "version_chart": _chart(versions, request),
        "version_choice": choice._replace(a=chosen[0], b=chosen[1]),
        "version_benchmark": versions.benchmark_id,
        "version_benchmarks": benchmarks,
        "version_periods": [
            (
                text,
                build_url(address, benchmark=versions.benchmark_id, days=days),
                days == choice.days,
            )
            for days, text in PERIODS
        ],
        "unknown_runs": versions.unknown_runs,
        "compared": _compare(res, versions, choice),
    }


def _kpi_names(versions: AgentVersions) -> dict[str, str]:
    kpis = sorted(
        (kpi for version in versions.versions for kpi in version.kpis), key=lambda kpi: not kpi.gate
    )
    return {kpi.kpi_id: kpi.name for kpi in kpis}


def _choose(versions: AgentVersions, choice: VersionChoice) -> tuple[str, str]:
    """The versions that the form has chosen: the last two, unless others are."""
    ids = [version.id for version in versions.versions]
    newest, before = [*ids, "", ""][:2]
    return choice.a if choice.a in ids else before, choice.b if choice.b in ids else newest


def _cells(
    version: AgentVersion, kpi_ids: Sequence[str], versions: AgentVersions
) -> list[tuple[str, str | None]]:
    """The mean of each KPI and its interval."""
    by_id = {kpi.kpi_id: kpi for kpi in version.kpis}
    cells = list[tuple[str, str | None]]()
    for kpi_id in kpi_ids:
        kpi = by_id.get(kpi_id)
        if kpi is None or kpi.mean is None:
            cells.append(("", None))
            continue
        figures = _figures(versions, kpi_id, kpi.unit)
        interval = figures.write_range(kpi.interval_low, kpi.interval_high)
        cells.append((figures.write(kpi.mean), interval))
    return cells


def _figures(versions: AgentVersions, kpi_id: str, unit: str | None) -> FigureFormat:
    """One format for a KPI in all versions."""
    means = [k.mean for version in versions.versions for k in version.kpis if k.kpi_id == kpi_id]
    return FigureFormat.of(means, unit)


def _chart(versions: AgentVersions, request: Request) -> PageChart | None:
    """The runs with their versions; None for fewer than two."""
    nights = versions.nights
    if len(nights) < 2 or not _kpi_names(versions):  # noqa: PLR2004 - a strip of one run shows nothing
        return None
    title = next(iter(_kpi_names(versions).values()))
    numbers = {version.id: number for number, version in enumerate(versions.versions)}
    names = [version.name for version in versions.versions]
    labels = label_times([night.at for night in nights], reader_zone(request))
    urls = [path_of("runs", night.run_id) for night in nights]
    unit = next(
        kpi.unit for version in versions.versions for kpi in version.kpis if kpi.name == title
    )
    figures = FigureFormat.of([night.value for night in nights], unit)
    points = [
        VersionPoint(numbers[night.version_id], label, night.value, url)
        for night, label, url in zip(nights, labels, urls, strict=True)
    ]
    svg = version_chart(title, points, names, write=figures.write)
    return PageChart(
        Markup(svg),  # noqa: S704 - our own SVG, which escapes its texts
        [
            TrendPoint(point.label, point.value, None, None, None, url=point.url, text=_text(point, names, figures))
            for point in points
        ],
        f"{title}: a point is a run, a dashed line the mean of a version.",
    )  # fmt: skip


def _text(point: VersionPoint, names: Sequence[str], figures: FigureFormat) -> str:
    value = "no value" if point.value is None else figures.write(point.value)
    return f"{point.label}: {value}, {names[point.version]}"


def _compare(
    res: Resources, versions: AgentVersions, choice: VersionChoice
) -> ComparedVersions | None:
    """The runs of version A together as the baseline of the last run of version B; None unless both are named."""
    by_id = {version.id: version for version in versions.versions}
    a, b = by_id.get(choice.a), by_id.get(choice.b)
    if a is None or b is None:
        return None
    apart = were_apart(versions.versions, a, b)
    if a is b:
        return ComparedVersions(a, b, problem="Choose two different versions.")
    if not a.run_ids or not b.run_ids:
        return ComparedVersions(
            a, b, were_apart=apart, problem="The traces of their runs are deleted."
        )
    bases, run_id = a.run_ids, b.run_ids[0]
    try:
        comparison = compare_for_page(res.db, ComparisonRequest(tuple(bases), run_id))
    except (Conflict, Invalid) as error:
        return ComparedVersions(a, b, were_apart=apart, problem=error.detail)
    if comparison is None:
        return ComparedVersions(a, b, were_apart=apart, is_pending=True)
    return ComparedVersions(
        a,
        b,
        kpis=_compared_kpis(comparison),
        explanation=comparison.verdict.explanation,
        changes=view_changes(comparison.what_changed),
        were_apart=apart,
        url=build_url("/compare", base=bases, run=run_id),
        api=build_url("/benchmark-runs/compare", baseline=bases, candidate=run_id),
    )


def _compared_kpis(comparison: Comparison) -> list[ComparedKpi]:
    """The KPIs of a comparison; of a benchmark without KPIs, the metrics that decide."""
    verdicts = [(kpi.name, kpi.verdict) for kpi in comparison.kpis] or [
        (row.metric, row.verdict) for row in comparison.metrics if row.metric in comparison.judged
    ]
    rows = []
    for name, verdict in verdicts:
        text = describe_change(verdict, verdict.scale, verdict.unit)
        figures = FigureFormat.of([verdict.value], verdict.unit, verdict.scale)
        before, now = figures.write_pair(verdict.baseline_value, verdict.value)
        rows.append(
            ComparedKpi(
                name,
                verdict.verdict,
                before or "",
                now or "",
                text.delta if text else "",
                (text.bounds or "") if text else "",
                verdict.reason or "",
            )
        )
    return rows


def versions_in_api(versions: AgentVersions, days: int) -> str:
    """The address of the versions in the API."""
    address = path_of("agents", versions.agent_id, "versions")
    return build_url(address, benchmarkId=versions.benchmark_id, days=days)
