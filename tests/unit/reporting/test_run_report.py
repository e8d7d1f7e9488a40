"""A run as a page: lines by hand, the worst traces first, and texts of users that do nothing."""

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from app.alerts.details import ContributingTrace
from app.alerts.rules import AlertEventState
from app.alerts.schemas import AlertView
from app.core.web.charts import sparkline
from app.kpis.schemas import KpiValueView
from app.kpis.verdict_types import RepeatedTrials, ValueVerdict
from app.metrics.types import Direction
from app.notifications.types import MessageSeverity
from app.reporting.run_report import RunReport, html_report, worst_results
from app.results.rules import RunStatus, Validity
from app.runs.schemas import MetricAggregateView, RunView, TraceResultView
from app.traces.types import TraceOutcome
from tests.support.views import partial_view

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(1)>\x00'
LINK = "https://langfuse.example/t/1?a=1&b=2"


def result(
    trace_id: str,
    value: float | None,
    outcome: TraceOutcome = TraceOutcome.SCORED,
    *,
    url: str | None = LINK,
    metric: str = "ROUGE",
) -> TraceResultView:
    return partial_view(
        TraceResultView,
        trace_id=trace_id,
        outcome=outcome,
        values={metric: value},
        url=url,
        input=HOSTILE,
        expected_output=None,
        output=HOSTILE * 30,
    )


def metric_aggregate(text: str, verdict: ValueVerdict) -> MetricAggregateView:
    return partial_view(
        MetricAggregateView,
        metric=text,
        mean=None,
        n=1,
        expected=2,
        coverage=0.5,
        p50=0.1,
        p95=1.0,
        missing={text: 1},
        interval_low=0.4,
        interval_high=None,
        verdict=verdict,
    )


def report(text: str, url: str | None) -> RunReport:
    """A run in which every text is the same one."""
    verdict = partial_view(ValueVerdict, explanation=text, repeats=())
    return RunReport(
        run=partial_view(
            RunView,
            id=text,
            benchmark_id=text,
            agent_id=text,
            run_name=text,
            status=RunStatus.COMPLETED,
            error_code=None,
            error_message=text,
            validity=Validity.INVALID,
            validity_reasons=[text],
            verdict=None,
            coverage=0.5,
            error_share=None,
            source_warning=None,
            traces_processed=2,
            traces_total=2,
            started_at=None,
            completed_at=None,
        ),
        metrics=[metric_aggregate(text, verdict)],
        kpis=[
            partial_view(
                KpiValueView,
                kpi_id="k-1",
                name=text,
                value=None,
                undefined_reason=text,
                unit=text,
                within_thresholds=None,
                formula=text,
                interval_low=0.4,
                interval_high=None,
                verdict=verdict,
            )
        ],
        history={"k-1": [0.1, 0.2]},
        alerts=[
            partial_view(
                AlertView,
                id=text,
                state=AlertEventState.FIRING,
                name=text,
                severity=MessageSeverity.WARNING,
                explanation=text,
                contributing_traces=(partial_view(ContributingTrace, trace_id=text, url=url),),
            )
        ],
        results=[result(text, 0.1, url=url, metric=text)],
        direction=Direction.HIGHER_IS_BETTER,
        public_url="https://mosaico.example",
    )


class ReportPage(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {(name, value or "") for name, value in attrs}


def page_of(html: str) -> ReportPage:
    page = ReportPage()
    page.feed(html)
    return page


@pytest.mark.parametrize("url", [LINK, None, "javascript:alert(1)", HOSTILE])
def test_html_report__escapes_user_texts_and_loads_nothing(url: str | None) -> None:
    page = page_of(html_report(report(HOSTILE, url)))
    assert page.tags == {
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "table", "thead", "tbody",
        "tr", "th", "td", "a", "svg", "polyline", "circle",
    }  # fmt: skip
    assert {"src", "style", "onerror", "onload"}.isdisjoint(name for name, _ in page.attributes)
    links = {value for name, value in page.attributes if name == "href"}
    own = {link for link in links if link.startswith("https://mosaico.example/")}
    assert links - own == ({LINK} if url == LINK else set())
    assert ("http-equiv", "Content-Security-Policy") in page.attributes


def test_sparkline__runs_from_oldest_to_newest() -> None:
    # 120 × 26 with a margin of 4: x in steps of 56, the lowest value at 22, the highest at 4.
    chart = sparkline([0.5, 1.0, 0.75])
    assert 'points="4.0,22.0 60.0,4.0 116.0,13.0"' in chart
    assert 'cx="116.0" cy="13.0"' in chart
    assert "3 runs, from 0.5 to 1" in chart


def test_sparkline__equal_values_are_level_and_one_value_is_empty() -> None:
    assert 'points="4.0,22.0 116.0,22.0"' in sparkline([2.0, 2.0])
    assert sparkline([2.0]) == sparkline([]) == ""


def test_worst_results__failed_traces_come_first() -> None:
    results = [
        result("good", 0.9),
        result("bad", 0.1),
        result("silent", None),
        result("failed", None, TraceOutcome.AGENT_ERROR),
    ]

    def names(direction: Direction) -> list[str]:
        return [result.trace_id for result in worst_results(results, "ROUGE", direction)]

    assert names(Direction.HIGHER_IS_BETTER) == ["failed", "bad", "good"]
    assert names(Direction.LOWER_IS_BETTER) == ["failed", "good", "bad"]
    fifty = [result(f"t-{n}", 0.5) for n in range(50)]
    assert len(worst_results(fifty, "ROUGE", Direction.LOWER_IS_BETTER)) == 10


def test_html_report__repeated_trials_have_a_table() -> None:
    once = report("quality", None)
    assert "pass@k" not in html_report(once)
    trials = RepeatedTrials(k=2, items=10, pass_at_k=0.6, pass_hat_k=0.4667, at_least_k=0.5)
    verdict = ValueVerdict(explanation="", repeats=(trials,))
    page = html_report(replace(once, metrics=[metric_aggregate("quality", verdict)]))
    cells = ("quality", "2", "0.6", "0.4667", "0.5", "10")
    assert "".join(f"<td>{cell}</td>" for cell in cells) in page
