"""The scores of a source against annotations: agreement, drift and the corrected mean, by API and page."""

import httpx
import pytest

from tests.support.annotators import Annotator
from tests.support.browser_sessions import HTML, log_in
from tests.support.service import JSON, Service, pair


def upload(service: Service, shift: float = 0.0) -> None:
    """100 answers. The judge passes 80; of the wrong ones every fourth as well."""
    service.upload(
        run_name=f"shift {shift}",
        traces=[
            pair(number, input=f"Say {number}", output=f"a {number}", scores={"tone": score(number) - shift})
            for number in range(100)
        ]
    )  # fmt: skip


def is_right(number: int) -> bool:
    return number % 10 < 7


def score(number: int) -> float:
    return 1.0 if is_right(number) or number % 10 == 7 else 0.25


@pytest.fixture
def run(service: Service) -> JSON:
    service.create_agent()
    service.create_benchmark(
        metrics=["EXACT_MATCH", {"key": "SCORE", "options": {"name": "tone", "better": "higher", "range": "0..1"}}]
    )  # fmt: skip
    upload(service)
    return service.complete_run()


def judge_of(service: Service, run: JSON, **options: float) -> JSON:
    [judge] = service.get(f"/benchmarks/{run['benchmarkId']}/judges", **options)["items"]
    assert isinstance(judge, dict)
    return judge


def test_judge__has_agreement_bias_and_a_corrected_mean(service: Service, run: JSON) -> None:
    before = judge_of(service, run, minAgreement=0.8)
    assert (before["answers"], before["share"]["value"], before["corrected"]) == (0, None, None)
    # A gate passes nothing that nobody measured.
    assert before["isBelow"] is True
    ana, ben = Annotator(service, "Ana"), Annotator(service, "Ben")
    for number in range(40):
        ana.judge(run, number, "right" if is_right(number) else "wrong")
    ben.judge(run, 0, "right")
    judge = judge_of(service, run)
    # Of 40 the judge passes 4 wrong ones; the other 8 wrong ones have 0.25.
    assert (judge["answers"], judge["items"], judge["runs"]) == (40, 40, 1)
    assert (judge["tooKind"], judge["tooStrict"], judge["isBelow"]) == (4, 0, None)
    assert judge["share"]["value"] == pytest.approx(0.9)
    # By chance 0.8 * 0.7 + 0.2 * 0.3 = 0.62.
    assert judge["kappa"]["value"] == pytest.approx((0.9 - 0.62) / 0.38)
    assert judge["bias"]["value"] == pytest.approx((4 + 8 * 0.25) / 40)
    assert judge["share"]["low"] < 0.9 < judge["share"]["high"]
    corrected = judge["corrected"]
    # The annotated items are like all others: 70 % are right, and the judge says 0.85.
    assert (corrected["annotated"], corrected["items"]) == (40, 100)
    assert corrected["judgeMean"] == pytest.approx(0.85)
    assert corrected["value"] == pytest.approx(0.7)
    assert corrected["weight"] > 0
    assert corrected["high"] - corrected["low"] < corrected["aloneHigh"] - corrected["aloneLow"]
    assert judge_of(service, run, minAgreement=0.95)["isBelow"] is True
    assert judge_of(service, run, minAgreement=0.85)["isBelow"] is False
    service.expect_problem(404, "GET", "/benchmarks/unknown/judges")
    service.create_benchmark("mine", evaluates=["agent-001"])
    limited = Annotator(service, "Eve", only=["mine"])
    assert limited.send("GET", f"/benchmarks/{run['benchmarkId']}/judges").status_code == 404


def test_judge_that_became_stricter__has_drift(service: Service, run: JSON) -> None:
    assert judge_of(service, run)["drift"] is None
    upload(service, shift=0.125)
    again = service.complete_run()
    drift = judge_of(service, run)["drift"]
    assert (drift["beforeRunId"], drift["runId"]) == (run["id"], again["id"])
    assert (drift["answers"], drift["changed"]) == (100, 100)
    assert drift["shift"] == pytest.approx(-0.125)


def test_page__of_a_judge_that_did_not_change_has_no_drift(
    service: Service, run: JSON, browser: httpx.Client
) -> None:
    traces = [pair(number, input=f"Say {number}", output=f"a {number}", scores={"tone": score(number)}) for number in range(100)]  # fmt: skip
    traces[0]["output"] = "another answer"
    service.upload(run_name="the next night", traces=traces)
    service.complete_run()
    drift = judge_of(service, run)["drift"]
    assert (drift["answers"], drift["changed"], drift["shift"], drift["low"]) == (99, 0, 0.0, None)
    log_in(browser, Annotator(service, "Ana").token)
    page = browser.get(f"/benchmarks/{run['benchmarkId']}/judges", headers=HTML)
    assert page.status_code == 200
    assert "0 of 99 have another score" in " ".join(page.text.split())


def test_page__has_the_numbers_and_the_reasons(
    service: Service, run: JSON, browser: httpx.Client
) -> None:
    ana = Annotator(service, "Ana")
    log_in(browser, ana.token)
    path = f"/benchmarks/{run['benchmarkId']}/judges"
    assert "no answer is annotated" in browser.get(path, headers=HTML).text
    for number in range(8):
        ana.judge(run, number, "right" if is_right(number) else "wrong")
    page = browser.get(path, headers=HTML).text
    assert "8 of at least 10 items are annotated" in page
    assert "too kind to 1" in " ".join(page.split())
