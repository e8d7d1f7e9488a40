"""Annotations by API and pages: judged again, limited, shown, exported, searched, and removed with the texts."""

import csv
from io import StringIO

import httpx
import pytest

from tests.support.annotators import Annotator
from tests.support.browser_sessions import HTML, log_in
from tests.support.service import JSON, Service, pair


@pytest.fixture
def run(service: Service) -> JSON:
    """A completed run of 30 answers; every third one is not the expected one."""
    service.create_agent()
    service.create_benchmark(metrics=["EXACT_MATCH", "ROUGE"])
    service.upload(
        [pair(number, output="a b c d" if number % 3 else "a b") for number in range(30)]
    )
    return service.complete_run()


def problem_of(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["type"].rpartition("/")[2]


def test_annotation__is_replaced_listed_searched_and_exported(service: Service, run: JSON) -> None:
    ana, ben = Annotator(service, "Ana"), Annotator(service, "Ben")
    first = ana.judge(run, 0, "wrong", note="  half of it ", score=0.25, correctedAnswer=" ")
    assert (first["note"], first["annotatorName"], first["itemId"]) == ("half of it", "Ana", "i-0")
    assert first["correctedAnswer"] is None
    again = ana.judge(run, 0, "partly", correctedAnswer="=a b c d")
    # One annotation of one annotator for one answer: the second one is the whole of what she says.
    assert (again["id"], again["judgement"], again["note"], again["score"]) == (
        first["id"], "partly", None, None,
    )  # fmt: skip
    assert again["createdAt"] == first["createdAt"]
    other = ben.judge(run, 0, "wrong", expectedIsWrong=True)
    assert [row["id"] for row in service.list_items("/annotations", runId=run["id"])] == [
        other["id"], again["id"],
    ]  # fmt: skip
    assert service.list_items("/annotations", text="B C") == [again]
    assert service.list_items("/annotations", expectedIsWrong="true") == [other]
    assert service.list_items("/annotations", annotator=again["annotator"]) == [again]
    assert service.list_items("/annotations", traceId="t-0", judgement="wrong") == [other]
    assert service.get(f"/annotations/{other['id']}") == other
    table = service.client.get("/api/v1/annotations.csv", params={"runId": run["id"]}).text
    rows = list(csv.DictReader(StringIO(table)))
    assert [(row["judgement"], row["annotatorName"]) for row in rows] == [
        ("wrong", "Ben"), ("partly", "Ana"),
    ]  # fmt: skip
    # A spreadsheet would compute it.
    assert not rows[1]["correctedAnswer"].startswith("=")
    groups = service.get("/overview/search", text="b c d")["groups"]
    [match] = next(group for group in groups if group["kind"] == "ANNOTATION")["matches"]
    assert (match["id"], match["runId"], match["itemId"]) == (again["id"], run["id"], "i-0")
    actions = [entry["action"] for entry in service.list_items("/audit", resourceId=again["id"])]
    assert actions == ["create_annotation", "create_annotation"]


def test_annotation__is_deleted_by_its_annotator_or_an_admin_only(
    service: Service, run: JSON
) -> None:
    ana, ben, eva = (
        Annotator(service, "Ana"), Annotator(service, "Ben"), Annotator(service, "Eva", "read"),
    )  # fmt: skip
    one, two = ana.judge(run, 1, "right"), ana.judge(run, 2, "right")
    body = {"traceId": "t-1", "judgement": "right"}
    assert eva.send("POST", f"/benchmark-runs/{run['id']}/annotations", body).status_code == 403
    assert problem_of(ben.send("DELETE", f"/annotations/{one['id']}")) == (
        403, "not-your-annotation",
    )  # fmt: skip
    assert ana.send("DELETE", f"/annotations/{one['id']}").status_code == 204
    service.delete(f"/annotations/{two['id']}")
    assert service.list_items("/annotations") == []


WRONG_FIELDS: tuple[JSON, ...] = (
    {"judgement": "good"},
    {"judgement": "right", "score": "high"},
    {"judgement": "right", "note": "x" * 2001},
    {},
)


def test_annotation__says_something_valid_of_an_answer_of_the_run(
    service: Service, run: JSON
) -> None:
    path = f"/benchmark-runs/{run['id']}/annotations"
    for fields in WRONG_FIELDS:
        service.expect_problem(422, "POST", path, {"traceId": "t-1", **fields})
    body = {"traceId": "t-99", "judgement": "right"}
    for run_id in (run["id"], "no-such-run"):
        service.expect_problem(404, "POST", f"/benchmark-runs/{run_id}/annotations", body)


def test_annotation__of_another_benchmark_does_not_exist_for_a_limited_key(
    service: Service, run: JSON
) -> None:
    service.create_benchmark("mine", evaluates=["agent-001"])
    mine = Annotator(service, "Ben", only=["mine"])
    path = f"/benchmark-runs/{run['id']}/annotations"
    annotation = service.post(
        path, {"traceId": "t-1", "judgement": "wrong", "note": "a secret reason"}
    )
    assert mine.send("POST", path, {"traceId": "t-1", "judgement": "right"}).status_code == 404
    assert mine.send("DELETE", f"/annotations/{annotation['id']}").status_code == 404
    assert mine.send("GET", f"/annotations/summary?runId={run['id']}").status_code == 404
    for route in ("/annotations", "/annotations.csv", "/overview/search?text=secret"):
        assert "a secret reason" not in mine.send("GET", route).text


def test_annotations__are_shown_on_the_pages_of_run_item_and_trace(
    service: Service, run: JSON, browser: httpx.Client
) -> None:
    ana = Annotator(service, "Ana")
    log_in(browser, ana.token)
    path = f"/runs/{run['id']}"
    assert "annotated:" not in browser.get(path, headers=HTML).text
    ana.judge(run, 0, "wrong", note="It stops too early")
    ana.judge(run, 1, "right")
    ana.judge(run, 2, "right")
    Annotator(service, "Ben").judge(run, 2, "wrong")
    page = browser.get(path, headers=HTML).text
    assert "3 of 30 annotated: 1 right, 1 wrong, 1 disputed" in page
    for address in (f"{path}/traces/t-0", f"{path}/items?item=i-0"):
        assert "It stops too early" in browser.get(address, headers=HTML).text
        assert "It stops too early" not in browser.get(address.replace("-0", "-1")).text


def test_summary__counts_and_names_what_is_disputed_and_wrongly_expected(
    service: Service, run: JSON, browser: httpx.Client
) -> None:
    ana, ben = Annotator(service, "Ana"), Annotator(service, "Ben")
    for number in range(12):
        said = "wrong" if number % 3 == 0 else "right"
        ana.judge(run, number, said)
        # He is stricter with two answers.
        ben.judge(run, number, "wrong" if number in {1, 2} else said)
    ana.judge(run, 20, "right", expectedIsWrong=True, correctedAnswer="a b")
    for scope in ({"runId": run["id"]}, {"benchmarkId": run["benchmarkId"]}):
        summary = service.get("/annotations/summary", **scope)
        # 6 both right, 4 both wrong, 2 disputed; the last one is Ana's alone.
        assert summary["counts"] == {
            "answers": 13, "right": 7, "partly": 0, "wrong": 4, "disputed": 2,
        }  # fmt: skip
        assert [row["annotatorName"] for row in summary["annotators"]] == ["Ana", "Ben"]
        [both] = summary["pairs"]
        # Ana: 8 right, 4 wrong. Ben: 6 and 6. Chance is 8/12 * 1/2 + 4/12 * 1/2 = 1/2; (10/12 - 1/2) / (1/2) = 2/3.
        assert (both["equal"], both["kappa"]["answers"]) == (10, 12)
        assert both["kappa"]["value"] == pytest.approx(2 / 3)
        assert both["kappa"]["low"] < 2 / 3 < both["kappa"]["high"]
        # Of 24 judgements 14 are right, 10 wrong: 1 - (2/12) / (2 * 14 * 10 / (24 * 23)).
        assert summary["alpha"]["value"] == pytest.approx(1 - (2 / 12) / (280 / 552))
        assert [answer["itemId"] for answer in summary["disputed"]] == ["i-1", "i-2"]
        [expectation] = summary["wrongExpectations"]
        assert (expectation["itemId"], expectation["correctedAnswer"]) == ("i-20", "a b")
    service.expect_problem(422, "GET", "/annotations/summary")
    log_in(browser, ana.token)
    for path in (f"/runs/{run['id']}", f"/benchmarks/{run['benchmarkId']}"):
        page = browser.get(f"{path}/annotations", headers=HTML).text
        assert "0.67" in page
        assert "Items whose expected answer annotators call wrong" in page


def test_erasure_and_retention__remove_what_annotators_wrote(service: Service, run: JSON) -> None:
    ana = Annotator(service, "Ana")
    for number in (0, 1):
        ana.judge(run, number, "wrong", note="He lives in Ulm", correctedAnswer="Ulm")
    service.post("/local-datasets/purge", {"itemId": "i-0"})
    service.work()
    texts = {
        row["itemId"]: (row["judgement"], row["note"], row["correctedAnswer"])
        for row in service.list_items("/annotations")
    }
    assert texts == {"i-0": ("wrong", None, None), "i-1": ("wrong", "He lives in Ulm", "Ulm")}
