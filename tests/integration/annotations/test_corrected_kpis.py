"""Annotations of a run correct the KPI of the next one, and a judge that agrees too little with people is named."""

import pytest

from mosaico.kpis.judge_types import PeopleAgreement
from tests.support.annotators import Annotator
from tests.support.browser_sessions import HTML, log_in, open_browser
from tests.support.service import JSON, Service, pair, run_mosaico

FORMULA = 'SCORE["tone"]'
ITEMS = 100


def is_right(number: int, share: float) -> bool:
    return number % 10 < 10 * share


def score(number: int, share: float) -> float:
    """A judge that passes the right answers and one of three wrong ones (of 30 %), and gives the others 0.25."""
    return 1.0 if is_right(number, share) or number % 10 == 7 else 0.25


def upload(service: Service, share: float) -> None:
    service.upload(
        run_name=f"right {share}",
        traces=[
            pair(number, input=f"Say {number}", output=f"a {number} {share}", scores={"tone": score(number, share)})
            for number in range(ITEMS)
        ],
    )  # fmt: skip


def judge_metric(**options: str) -> JSON:
    return {"key": "SCORE", "options": {"name": "tone", "better": "higher", "range": "0..1", **options}}  # fmt: skip


@pytest.fixture
def first_run(service: Service) -> JSON:
    service.create_agent()
    service.create_benchmark(
        metrics=[judge_metric()],
        measures=[{"id": "quality", "name": "Quality", "formula": FORMULA, "corrected": True}],
        minAgreement=0.95,
    )
    upload(service, 0.7)
    return service.complete_run()


def annotate(service: Service, run: JSON, count: int = 40, share: float = 0.7) -> Annotator:
    ana = Annotator(service, "Ana")
    for number in range(count):
        ana.judge(run, number, "right" if is_right(number, share) else "wrong")
    return ana


def kpi_of(service: Service, run: JSON) -> JSON:
    [kpi] = service.get(f"/benchmark-runs/{run['id']}/kpis")["items"]
    assert isinstance(kpi, dict)
    return kpi


def metric_of(service: Service, run: JSON) -> JSON:
    metrics = service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
    return next(metric for metric in metrics if metric["metric"] == FORMULA)


def inbox_texts(service: Service) -> list[str]:
    return [str(message) for message in service.list_items("/notifications")]


def test_run_without_annotations__keeps_the_mean_of_the_judge_and_says_so(
    service: Service, first_run: JSON
) -> None:
    kpi = kpi_of(service, first_run)
    # 80 answers with 1.0, 20 with 0.25.
    assert kpi["value"] == pytest.approx(0.85)
    correction = kpi["correction"]
    assert (correction["rawValue"], correction["answers"]) == (pytest.approx(0.85), 0)
    assert "0 of at least 10" in correction["reason"]
    assert "annotate" in correction["remedy"]
    assert correction["explanation"] in first_run["metricWarning"]
    # Nobody knows how good the judge is, which decides.
    [weak] = first_run["verdict"]["weakJudges"]
    assert (weak["metric"], weak["share"], weak["answers"]) == (FORMULA, None, 0)
    assert first_run["verdict"]["explanation"].count("annotate answers that it scored") == 1
    shown = run_mosaico(service, "runs", "show", first_run["id"])
    assert correction["explanation"] in shown.stdout


def test_annotations__correct_the_next_run(service: Service, first_run: JSON) -> None:
    annotate(service, first_run)
    upload(service, 0.5)
    second = service.complete_run()
    kpi = kpi_of(service, second)
    # People: 28 right answers with 1.0; 12 wrong ones, four with 1.0 and eight with 0.25, 0.5 on average. The run has 60
    # answers with 1.0 and 40 with 0.25, 0.7 on average: (0.7 - 0.5) / (1 - 0.5).
    assert kpi["value"] == pytest.approx(0.4)
    assert kpi["intervalLow"] < 0.4 < kpi["intervalHigh"]
    correction = kpi["correction"]
    assert (correction["rawValue"], correction["answers"], correction["items"]) == (
        pytest.approx(0.7), 40, 40,
    )  # fmt: skip
    assert correction["rawLow"] < 0.7 < correction["rawHigh"]
    assert (correction["reason"], second["metricWarning"]) == (None, None)
    # The verdict compares the scores, which both runs have.
    verdict = kpi["verdict"]
    assert (verdict["baselineValue"], verdict["value"]) == (pytest.approx(0.85), pytest.approx(0.7))
    assert (verdict["verdict"], second["verdict"]["verdict"]) == ("REGRESSED", "REGRESSED")
    assert verdict["comparesScores"] is True
    assert "scores of the judge" in verdict["explanation"]
    # So do the nights: the corrected value of a run is no level to compare with.
    [cell] = service.get("/overview")["cells"]
    assert cell["kpi"]["history"] == [pytest.approx(0.85), pytest.approx(0.7)]
    # What people said until then is stored with the run.
    agreement = metric_of(service, second)["agreement"]
    assert (agreement["share"], agreement["answers"]) == (pytest.approx(0.9), 40)
    assert agreement["low"] < 0.9 < agreement["high"]


def test_weak_judge__is_named_where_its_score_decides(service: Service, first_run: JSON) -> None:
    ana = annotate(service, first_run)
    rule = {"benchmarkId": "bench-001", "kpi": "quality", "severity": "WARNING"}
    # The scores of the judge alone are above this threshold.
    service.post("/alert-configs", {**rule, "id": "low", "name": "low", "condition": "LESS_THAN", "threshold": 0.6})  # fmt: skip
    service.post("/alert-configs", {**rule, "id": "drop", "name": "drop", "condition": "PERCENTAGE_DROP", "threshold": 10})  # fmt: skip
    service.post(
        "/alert-configs", {**rule, "id": "worse", "name": "worse", "condition": "REGRESSED"}
    )
    upload(service, 0.5)
    second = service.complete_run()
    words = f"{FORMULA} agrees with people on 90 % of 40 annotated answers"
    [weak] = second["verdict"]["weakJudges"]
    assert PeopleAgreement.model_validate(weak).is_below
    assert words in second["verdict"]["explanation"]
    assert words in kpi_of(service, second)["verdict"]["explanation"]
    alerts = {alert["name"]: alert for alert in service.list_items("/alerts")}
    assert alerts.keys() == {"low", "drop", "worse"}
    assert all(words in alert["explanation"] for alert in alerts.values())
    # A drop compares the scores; a threshold is one of the corrected value.
    assert alerts["drop"]["value"] == pytest.approx(0.7)
    assert alerts["low"]["value"] == pytest.approx(0.4)
    assert all(words in text for text in inbox_texts(service))
    gate = run_mosaico(service, "gate", "--run", second["id"])
    assert (gate.exit_code, words in gate.stdout + gate.stderr) == (1, True)
    compared = service.get("/benchmark-runs/compare", baseline=first_run["id"], candidate=second["id"])  # fmt: skip
    # Nobody had annotated an answer when the baseline ended: the judge of the run is the one that decides.
    assert words in compared["verdict"]["explanation"]
    with open_browser(service) as browser:
        log_in(browser, ana.token)
        pages = [browser.get(path, headers=HTML).text for path in (f"/runs/{second['id']}", "/")]
    assert all("annotated answers" in page and "by the judge" in page for page in pages)


def test_judge_without_a_range__is_named_with_its_own_remedy(service: Service) -> None:
    service.create_agent()
    metric = {"key": "SCORE", "options": {"name": "tone"}}
    service.create_benchmark(
        metrics=[metric], measures=[{"name": "Quality", "formula": FORMULA}], minAgreement=0.9
    )
    upload(service, 0.7)
    explanation = service.complete_run()["verdict"]["explanation"]
    # Annotations of it could not be compared.
    assert ('the options "range"' in explanation, "annotate" in explanation) == (True, False)


def test_strong_judge__is_not_named(service: Service, first_run: JSON) -> None:
    annotate(service, first_run)
    service.patch("/benchmarks/bench-001", {"minAgreement": 0.9})
    upload(service, 0.5)
    second = service.complete_run()
    assert second["verdict"]["weakJudges"] == []
    assert metric_of(service, second)["agreement"]["minAgreement"] == 0.9


def test_run_that_is_scored_again__reads_the_annotations_of_its_traces(
    service: Service, first_run: JSON
) -> None:
    annotate(service, first_run)
    again = service.post(f"/benchmark-runs/{first_run['id']}/rescore")
    service.work()
    kpi = kpi_of(service, again)
    # (0.85 - 0.5) / 0.5 is what people say of all answers; no answer counts twice.
    assert (kpi["value"], kpi["correction"]["answers"]) == (pytest.approx(0.7), 40)


def test_judge_that_changed__is_not_corrected_by_annotations_of_the_judge_before(
    service: Service, first_run: JSON
) -> None:
    annotate(service, first_run)
    upload(service, 0.8)
    service.complete_run()
    service.patch("/benchmarks/bench-001", {"metrics": [judge_metric(range="0..2")]})
    upload(service, 0.5)
    third = kpi_of(service, service.complete_run())
    # Its baseline, which nobody annotated, is measured again; the first run is not.
    assert (third["value"], third["correction"]["answers"]) == (pytest.approx(0.7), 0)
    assert "another version" in third["correction"]["reason"]
    assert "rescore" in third["correction"]["remedy"]
    service.post(f"/benchmark-runs/{first_run['id']}/rescore")
    service.work()
    upload(service, 0.6)
    fourth = kpi_of(service, service.complete_run())
    # The judge of now scores right answers with 1 of 2 and wrong ones with 0.5 of 2. 70 answers with 1.0 and 30 with 0.25
    # are 0.775 of 2: (0.775 - 0.5) / (1 - 0.5) of 2.
    assert (fourth["value"], fourth["correction"]["answers"]) == (pytest.approx(1.1), 40)


def test_corrected_kpi_of_no_judge__is_refused(service: Service) -> None:
    service.create_agent()
    measures = [{"name": "Quality", "formula": "ROUGE", "corrected": True}]
    problem = service.expect_problem(422, "POST", "/benchmarks", {"id": "b", "datasetRef": "support", "measures": measures})  # fmt: skip
    assert problem["errors"][0]["pointer"] == "/measures/0/corrected"
