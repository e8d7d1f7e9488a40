"""Queues of answers to judge: the same for everybody, in a stable order, and judged by forms one after the other."""

from random import Random
from typing import Any

import httpx
import pytest
from sqlalchemy import delete

from mosaico.annotations.models import Annotation
from mosaico.comparison.answer_schemas import AnswerFilter
from mosaico.comparison.flipped_answers import list_flipped_answers
from mosaico.comparison.run_answers import load_answers
from mosaico.run_store.models import BenchmarkRun
from tests.support.annotators import Annotator
from tests.support.browser_sessions import HTML, log_in
from tests.support.service import JSON, Service, pair


def night(service: Service, name: str, wrong: set[int]) -> JSON:
    """A run of 24 answers of which some are wrong; of a wrong one ROUGE is 2/3 and calls it right."""
    service.upload(
        [pair(number, output="a b" if number in wrong else "a b c d") for number in range(24)],
        run_name=name,
    )
    return service.complete_run(runName=name)


@pytest.fixture(scope="module")
def service(module_service: Service) -> Service:
    """One for this file, whose tests change none of its runs."""
    return module_service


@pytest.fixture(autouse=True)
def no_annotations(service: Service) -> None:
    with service.resources.db.begin() as session:
        session.execute(delete(Annotation))


@pytest.fixture(scope="module")
def runs(service: Service) -> list[JSON]:
    """Two nights: in the second one the items 3, 4 and 5 are wrong, and 1 is right again."""
    service.create_agent()
    service.create_benchmark(
        metrics=["EXACT_MATCH", "ROUGE"], measures=[{"name": "pass", "formula": "EXACT_MATCH"}]
    )
    return [night(service, "monday", {1, 2}), night(service, "tuesday", {2, 3, 4, 5})]


def items_of(annotator: Annotator, run: JSON, **parameters: Any) -> list[str]:
    response = annotator.service.client.get(
        f"/api/v1/benchmark-runs/{run['id']}/annotation-queue",
        params=parameters,
        headers={"Authorization": f"Bearer {annotator.token}"},
    )
    assert response.status_code == 200, response.text
    return [item["itemId"] for item in response.json()["items"]]


def test_queue_of_flipped_items__has_those_that_fell_first(
    service: Service, runs: list[JSON]
) -> None:
    ana = Annotator(service, "Ana")
    assert items_of(ana, runs[1], queue="flipped") == ["i-3", "i-4", "i-5", "i-1"]
    assert items_of(ana, runs[1], queue="flipped", size=2) == ["i-3", "i-4"]
    first = service.get(f"/benchmark-runs/{runs[0]['id']}/annotation-queue", queue="flipped")
    assert first["items"] == []
    assert first["reason"]


def test_queue_of_flipped_items__has_those_of_the_answers_each_by_its_worst_trial(
    service: Service,
) -> None:
    service.create_agent("of-trials")
    service.create_benchmark(
        "trials", datasetRef="trials", metrics=["EXACT_MATCH"], minCoverage=0.1
    )
    random = Random(52)
    nights = []
    for name in ("monday", "tuesday"):
        rows = [
            pair(
                3 * item + trial,
                # Of some items, the expected answer is another one on the second night.
                "a" if name == "monday" or item % 7 else "z",
                random.choice(["a", "z", "b"]),
                itemId=f"i-{item}",
                trial=trial,
            )
            for item in range(40)
            for trial in range(3)
        ]
        service.upload(rows, "trials", run_name=name)
        run = service.complete_run(benchmarkId="trials", agentId="of-trials", runName=name)
        nights.append(run["id"])
    with service.resources.db.read() as session:
        before, now = (session.get_one(BenchmarkRun, run_id) for run_id in nights)
        answers = load_answers(session, now, before, AnswerFilter())
        flipped = {
            item.item_id: (item.worst(item.now).trace_id, round(item.harm, 6))
            for item in answers.selected
            if item.is_flipped
        }
        listed = list_flipped_answers(session, now, before, 100)
        assert list_flipped_answers(session, now, before, 3) == listed[:3]
    assert len(flipped) > 5
    assert {row.item_id: row.trace_id for row in listed} == {
        item: trace for item, (trace, _) in flipped.items()
    }
    harms = [flipped[row.item_id][1] for row in listed]
    assert harms == sorted(harms, reverse=True)


def test_queue_of_a_sample__is_the_same_for_everybody_by_its_name(
    service: Service, runs: list[JSON]
) -> None:
    ana, ben = Annotator(service, "Ana"), Annotator(service, "Ben")
    sample = items_of(ana, runs[1], name="week 48", size=12)
    assert len(set(sample)) == 12
    ana.judge(runs[1], int(sample[0].removeprefix("i-")), "right")
    assert items_of(ana, runs[1], name="week 48", size=12) == sample
    assert items_of(ben, runs[1], name="week 48", size=12) == sample
    assert items_of(ben, runs[1], name="week 49", size=12) != sample
    # A longer sample continues a shorter one.
    assert items_of(ben, runs[1], name="week 48", size=24)[:12] == sample


def test_queue_of_new_answers__leaves_out_what_the_caller_judged_before(
    service: Service, runs: list[JSON]
) -> None:
    ana, ben = Annotator(service, "Ana"), Annotator(service, "Ben")
    judged = ana.judge(runs[1], 7, "right")
    assert "i-7" not in items_of(ana, runs[1], queue="new", size=24)
    assert "i-7" in items_of(ben, runs[1], queue="new", size=24)
    # What was judged from the beginning of the queue on stays in it: its numbers do not move.
    assert "i-7" in items_of(ana, runs[1], queue="new", size=24, since=judged["createdAt"])


def test_queue_of_disagreements__is_about_two_metrics(service: Service, runs: list[JSON]) -> None:
    ana = Annotator(service, "Ana")
    # "a b" for "a b c d": ROUGE is 2/3, and EXACT_MATCH 0.
    assert items_of(ana, runs[1], queue="judges", first="EXACT_MATCH", second="ROUGE") == [
        "i-2", "i-3", "i-4", "i-5",
    ]  # fmt: skip
    path = f"/benchmark-runs/{runs[1]['id']}/annotation-queue"
    unnamed = service.get(path, queue="judges")
    assert (unnamed["items"], unnamed["first"]) == ([], None)
    assert "judge" in unnamed["reason"]
    response = service.client.get(f"/api/v1{path}", params={"queue": "judges", "first": "NONE"})
    assert response.status_code == 422
    assert "EXACT_MATCH" in response.json()["detail"]


def test_queue_of_disagreements__without_names_is_about_judges_first(service: Service) -> None:
    service.create_agent("judged")
    # One to five stars, and the share of faults.
    scores = [
        {"key": "SCORE", "options": {"name": name, "better": better, "range": ends}}
        for name, better, ends in (("kind", "higher", "1..5"), ("faults", "lower", "0..1"))
    ]
    service.create_benchmark("stars", datasetRef="stars", metrics=["EXACT_MATCH", *scores])
    # Of four right answers, one judge calls two wrong, and the other one of these and another one.
    judged = [(5.0, 0.0), (1.0, 1.0), (2.0, 0.1), (5.0, 1.0)]
    service.upload(
        [
            pair(number, scores={"kind": kind, "faults": faults})
            for number, (kind, faults) in enumerate(judged)
        ],
        "stars",
    )
    run = service.complete_run(benchmarkId="stars", agentId="judged")
    path = f"/benchmark-runs/{run['id']}/annotation-queue"

    def disagreements(**names: str) -> tuple[str, str, list[str]]:
        queue = service.get(path, queue="judges", **names)
        return queue["first"], queue["second"], [row["itemId"] for row in queue["items"]]

    kind, faults = 'SCORE["kind"]', 'SCORE["faults"]'
    assert disagreements() == (kind, faults, ["i-3", "i-2"])
    assert disagreements(first="EXACT_MATCH") == ("EXACT_MATCH", kind, ["i-1", "i-2"])
    assert disagreements(second=kind) == (faults, kind, ["i-3", "i-2"])
    twice = {"queue": "judges", "first": kind, "second": kind}
    assert service.client.get(f"/api/v1{path}", params=twice).status_code == 422


def test_queue_page__shows_one_answer_after_the_other_and_continues(
    service: Service, runs: list[JSON], browser: httpx.Client
) -> None:
    log_in(browser, Annotator(service, "Ana").token)
    run = runs[1]
    queue = f"/runs/{run['id']}/annotate?queue=flipped"
    page = browser.get(queue, headers=HTML).text
    assert ">1 of 4</b>" in page
    form, following = f"/runs/{run['id']}/annotations", f"{queue}&at=2"
    assert f'action="{form}"' in page
    assert f'name="next" value="{following.replace("&", "&amp;")}"' in page
    sent = browser.post(
        form,
        data={
            "next": following,
            "traceId": "t-3", "judgement": "partly", "note": " half ", "score": "0,5",
            "expectedIsWrong": "true", "correctedAnswer": "",
        },
    )  # fmt: skip
    [annotation] = service.list_items("/annotations")
    assert (annotation["judgement"], annotation["note"], annotation["score"]) == (
        "partly", "half", 0.5,
    )  # fmt: skip
    assert (annotation["expectedIsWrong"], annotation["correctedAnswer"]) == (True, None)
    next_page = sent.headers["location"]
    assert next_page == following
    shown = browser.get(next_page, headers=HTML).text
    assert ">2 of 4</b>" in shown
    assert f"/annotations/{annotation['id']}/delete" in shown
    # Who comes back is where they stopped; who skips gets it again.
    assert ">2 of 4</b>" in browser.get(queue, headers=HTML).text
    assert "Judge what you skipped" in browser.get(f"{queue}&at=5", headers=HTML).text
    undone = browser.post(f"/annotations/{annotation['id']}/delete", data={"next": f"{queue}&at=1"})
    assert undone.headers["location"] == f"{queue}&at=1"
    assert service.list_items("/annotations") == []


def test_queue_page__of_new_answers_fixes_when_it_began(
    service: Service, runs: list[JSON], browser: httpx.Client
) -> None:
    log_in(browser, Annotator(service, "Ana").token)
    opened = browser.get(f"/runs/{runs[1]['id']}/annotate?queue=new", headers=HTML)
    assert opened.status_code == 303
    assert "since=" in opened.headers["location"]
    assert browser.get(opened.headers["location"], headers=HTML).status_code == 200


def test_queue_page__hides_what_metrics_and_others_say(
    service: Service, runs: list[JSON], browser: httpx.Client
) -> None:
    Annotator(service, "Ben").judge(runs[1], 3, "wrong", note="Ben was here")
    log_in(browser, Annotator(service, "Ana").token)
    page = browser.get(f"/runs/{runs[1]['id']}/annotate?queue=flipped", headers=HTML).text
    assert "Ben was here" not in page
    before_the_fold, folded = page.split("What metrics and judges say")
    assert "EXACT_MATCH" not in before_the_fold
    assert "EXACT_MATCH" in folded


def test_queue_over_nights__has_answers_of_several_runs_and_judges_each_in_its_run(
    service: Service, runs: list[JSON], browser: httpx.Client
) -> None:
    ana = Annotator(service, "Ana")
    path = f"/benchmark-runs/{runs[1]['id']}/annotation-queue"
    queue = service.get(path, name="week 48", nights=7, size=48)["items"]
    answers = {(row["runId"], row["itemId"]) for row in queue}
    assert len(answers) == 48
    assert {run_id for run_id, _ in answers} == {run["id"] for run in runs}
    # The earlier run knows nothing of the later one.
    [only] = {
        row["runId"]
        for row in service.get(f"/benchmark-runs/{runs[0]['id']}/annotation-queue", nights=7)[
            "items"
        ]
    }
    assert only == runs[0]["id"]
    service.expect_problem(422, "GET", f"{path}?queue=flipped&nights=2")
    log_in(browser, ana.token)
    page = f"/runs/{runs[1]['id']}/annotate?queue=sample&name=week+48&nights=7&size=48"
    number, first = next(
        (number, row) for number, row in enumerate(queue, 1) if row["runId"] == runs[0]["id"]
    )
    content = browser.get(f"{page}&at={number}", headers=HTML).text
    assert f'action="/runs/{first["runId"]}/annotations"' in content
    ana.judge(runs[0], int(first["itemId"].removeprefix("i-")), "right")
    again = browser.get(f"{page}&at={number}", headers=HTML).text
    assert "you said: right" in again


def test_benchmark_page__offers_the_queues_of_the_chosen_run(
    service: Service, runs: list[JSON], browser: httpx.Client
) -> None:
    log_in(browser, Annotator(service, "Ana").token)
    page = "/benchmarks/bench-001/annotations"
    assert f"/runs/{runs[1]['id']}/annotate" in browser.get(page, headers=HTML).text
    chosen = browser.get(f"{page}?run={runs[0]['id']}", headers=HTML).text
    assert f"/runs/{runs[0]['id']}/annotate" in chosen
    assert f"/runs/{runs[1]['id']}/annotate" not in chosen


def test_trace_page__takes_a_judgement_and_folds_those_of_others_until_then(
    service: Service, runs: list[JSON], browser: httpx.Client
) -> None:
    Annotator(service, "Ben").judge(runs[1], 3, "wrong", note="Ben was here")
    log_in(browser, Annotator(service, "Ana").token)
    path = f"/runs/{runs[1]['id']}/traces/t-3"
    before = browser.get(path, headers=HTML).text
    assert before.index("judge the answer first") < before.index("Ben was here")
    form = {"traceId": "t-3", "judgement": "partly", "next": path}
    sent = browser.post(f"/runs/{runs[1]['id']}/annotations", data=form)
    assert (sent.status_code, sent.headers["location"]) == (303, path)
    after = browser.get(path, headers=HTML).text
    assert "judge the answer first" not in after
    assert "you said: partly" in after
    assert "Ben was here" in after
    # Only pages of the service follow.
    away = browser.post(
        f"/runs/{runs[1]['id']}/annotations", data={**form, "next": "https://example.org/"}
    )
    assert away.headers["location"] == path
