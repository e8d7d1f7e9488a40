"""A run as a page: lines by hand, the worst traces first, and texts of users that do nothing."""

from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from app.core.web.charts import sparkline
from app.reporting.run_report import RunReport, html_report, worst_results

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(1)>\x00'
LINK = "https://langfuse.example/t/1?a=1&b=2"


def result(trace: str, value: float | None, outcome: str = "scored", **more: Any) -> dict[str, Any]:
    texts = {"input": HOSTILE, "expectedOutput": None, "output": HOSTILE * 30, "url": LINK}
    return {"traceId": trace, "outcome": outcome, "values": {"ROUGE": value}, **texts, **more}


def report(text: str, url: str | None) -> RunReport:
    """A run in which every text is the same one."""
    figures = {"intervalLow": 0.4, "intervalHigh": None, "verdict": {"explanation": text}}
    return RunReport(
        run={
            "id": text, "benchmarkId": text, "agentId": text, "runName": text, "status": "COMPLETED",
            "errorCode": None, "errorMessage": text, "validity": "INVALID",
            "validityReasons": [text], "verdict": None, "coverage": 0.5, "errorShare": None,
            "tracesProcessed": 2, "tracesTotal": 2, "startedAt": None, "completedAt": None,
        },
        metrics=[{"metric": text, "mean": None, "n": 1, "expected": 2, "coverage": 0.5, "p50": 0.1,
                  "p95": 1.0, "missing": {text: 1}, **figures}],
        kpis=[{"kpiId": "k-1", "name": text, "value": None, "undefinedReason": text, "unit": text,
               "withinThresholds": None, "formula": text, **figures}],
        history={"k-1": [0.1, 0.2]},
        alerts=[{"id": text, "state": "FIRING", "name": text, "severity": "WARNING",
                 "explanation": text, "contributingTraces": [{"traceId": text, "url": url}]}],
        results=[result(text, None, url=url, values={text: 0.1})],
        direction="HIGHER_IS_BETTER",
        public_url="https://mosaico.example",
    )  # fmt: skip


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
        result("failed", None, "agent_error"),
    ]

    def names(direction: str) -> list[str]:
        return [result["traceId"] for result in worst_results(results, "ROUGE", direction)]

    assert names("HIGHER_IS_BETTER") == ["failed", "bad", "good"]
    assert names("LOWER_IS_BETTER") == ["failed", "good", "bad"]
    assert len(worst_results([result(f"t-{n}", 0.5) for n in range(50)], "ROUGE", "")) == 10


def test_html_report__repeated_trials_have_a_table() -> None:
    once = report("quality", None)
    assert "pass@k" not in html_report(once)
    row = {"k": 2, "items": 10, "passAtK": 0.6, "passHatK": 0.4667, "atLeastK": 0.5}
    metrics = [{**once.metrics[0], "verdict": {"explanation": None, "repeats": [row]}}]
    page = html_report(replace(once, metrics=metrics))
    cells = ("quality", "2", "0.6", "0.4667", "0.5", "10")
    assert "".join(f"<td>{cell}</td>" for cell in cells) in page
