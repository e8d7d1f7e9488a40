"""The health of a dataset: what its items tell, and what is wrong with them."""

import html
import re

import httpx
import pytest

from tests.integration.datasets.test_versions import create_dataset, edit
from tests.support.annotators import Annotator
from tests.support.browser_sessions import HTML, log_in, open_browser
from tests.support.service import JSON, Service, pair

ITEMS = 20
NIGHTS = 6


def answers(night: int, model: str) -> list[JSON]:
    """i-0 is never right, i-1 on every second night, all others always."""
    rows = []
    for number in range(ITEMS):
        is_wrong = number == 0 or (number == 1 and night % 2)
        output = f"no {night}" if is_wrong else f"answer {number}"
        rows.append(pair(number, None, output, attributes={"model": model}))
    return rows


def create_items(service: Service) -> JSON:
    """Items 2 and 3 ask the same, and 4 and 5, which expect other answers."""
    questions = {3: "question  2 ", 5: "Question 4?"}
    items = [
        {
            "id": f"i-{number}",
            "input": questions.get(number, f"question {number}"),
            "expectedOutput": f"answer {2 if number == 3 else number}",
        }
        for number in range(ITEMS)
    ]
    return create_dataset(service, *items)


@pytest.fixture
def dataset(service: Service) -> JSON:
    """Six nights of one agent, whose model changed before the fifth."""
    service.create_agent()
    service.create_benchmark(metrics=["EXACT_MATCH"])
    dataset = create_items(service)
    for night in range(NIGHTS):
        rows = answers(night, "m-1" if night < 4 else "m-2")
        # Item 3 is the same question as item 2.
        rows[3]["output"] = "answer 2"
        service.upload(rows, run_name=f"night-{night}")
        run = service.complete_run(runName=f"night-{night}")
        assert run["validity"] == "VALID", run
    return dataset


def health_of(service: Service) -> JSON:
    health: JSON = service.get("/benchmarks/bench-001/dataset-health")
    return health


def test_health__names_constant_flipping_and_equal_items_with_what_it_rests_on(
    service: Service, dataset: JSON
) -> None:
    health = health_of(service)
    assert (health["datasetId"], health["metric"], health["reason"]) == (
        dataset["id"], "EXACT_MATCH", None,
    )  # fmt: skip
    assert (health["itemCount"], health["runs"], health["agents"]) == (ITEMS, NIGHTS, 1)
    assert (health["constantWrong"], health["constantRight"]) == (1, ITEMS - 2)
    assert health["constantItems"][0] == {
        "itemId": "i-0", "value": 0, "isRight": False, "runs": NIGHTS, "agents": 1,
    }  # fmt: skip
    # Five pairs of nights, one of them with another model.
    assert (health["unchangedPairs"], health["unrecordedPairs"]) == (4, 0)
    assert health["flippingItems"] == [{"itemId": "i-1", "runs": NIGHTS, "pairs": 4, "flips": 4}]
    assert [same["itemIds"] for same in health["duplicateItems"]] == [["i-2", "i-3"]]
    assert [same["itemIds"] for same in health["contradictingItems"]] == [["i-4", "i-5"]]
    require_power_estimates(service, health["detectable"])


def require_power_estimates(service: Service, detectable: JSON) -> None:
    """The items and trials that smaller drops need are those of the power estimate."""
    assert (detectable["items"], detectable["trials"]) == (ITEMS, 1)
    drops = [size["drop"] for size in detectable["needed"]]
    assert drops == sorted(drops, reverse=True)
    assert 0 < max(drops) < detectable["drop"]
    assert detectable["needed"][0]["itemsNeeded"]
    for size in detectable["needed"]:
        [estimate] = service.post("/benchmarks/bench-001/power", {"drop": size["drop"]})["items"]
        # Null where whole runs vary too much.
        assert size["itemsNeeded"] == estimate["itemsNeeded"]
        assert size["itemsNeeded"] is None or size["itemsNeeded"] > ITEMS
        assert size["trialsNeeded"] == estimate["trialsNeeded"]
        assert estimate["minDetectableEffect"] == detectable["drop"]


def test_health__leaves_out_what_was_edited_or_retired_since_also_with_one_press(
    service: Service, dataset: JSON
) -> None:
    run = service.list_items("/benchmark-runs")[0]
    Annotator(service, "Ana").judge(
        run, 6, "right", expectedIsWrong=True, correctedAnswer="answer six"
    )
    [wrong] = health_of(service)["wrongExpectations"]
    assert (wrong["itemId"], wrong["annotators"], wrong["correctedAnswer"]) == (
        "i-6", 1, "answer six",
    )  # fmt: skip
    changed = {"id": "i-6", "input": "question 6", "expectedOutput": "answer six"}
    edit(service, dataset, 1, items=[changed], retire=["i-1", "i-3", "i-4"])
    health = health_of(service)
    assert health["wrongExpectations"] == health["flippingItems"] == []
    assert health["duplicates"] == health["contradictions"] == 0
    names = {item["itemId"] for item in health["constantItems"]}
    assert not names & {"i-3", "i-4", "i-6"}
    assert health["constantRight"] == len(names) - 1 == ITEMS - 5
    retire_with_one_press(service, dataset)
    assert health_of(service)["constantWrong"] == 0


def retire_with_one_press(service: Service, dataset: JSON) -> None:
    with open_browser(service) as browser:
        log_in(browser, Annotator(service, "Eva").token)
        page = "/benchmarks/bench-001/dataset-health"
        content = browser.get(page, headers=HTML).text
        assert f'name="next" value="{page}"' in content
        form = {"item": "i-0", "baseVersion": "2", "retire": "1", "next": page}
        response = browser.post(f"/datasets/{dataset['id']}/item", data=form)
        assert (response.status_code, response.headers["location"]) == (303, page)


def test_health__of_an_item_that_the_dataset_does_not_have_leads_to_its_answers(
    service: Service,
) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["EXACT_MATCH"])
    dataset = create_dataset(service, {"id": "i-0", "input": "question 0"})
    for night in range(5):
        service.upload([pair(n, "yes", f"no {night}") for n in range(6)], run_name=f"night-{night}")
        service.complete_run(runName=f"night-{night}")
    assert health_of(service)["constantWrong"] == 6
    with open_browser(service) as browser:
        log_in(browser, Annotator(service, "Ana").token)
        content = browser.get("/benchmarks/bench-001/dataset-health", headers=HTML).text
        retired = re.findall(r'name="item" value="([^"]*)"', content)
        links = set(re.findall(r'href="([^"]*[?&]item=[^"]*)"', content))
        assert retired == ["i-0"]
        assert len(links) == 6
        assert all(
            browser.get(html.unescape(link), headers=HTML).status_code == 200 for link in links
        )
    assert sum(f"/datasets/{dataset['id']}/item" in link for link in links) == 1


def test_health__without_a_run_finds_equal_questions_and_says_what_is_missing(
    service: Service,
) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["EXACT_MATCH"])
    create_items(service)
    health = health_of(service)
    assert "start one" in health["reason"]
    assert (health["duplicates"], health["contradictions"], health["itemCount"]) == (1, 1, ITEMS)
    assert health["constantItems"] == []
    assert health["detectable"] is None


def test_health__of_an_agent_without_a_recorded_version_says_so(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["EXACT_MATCH"])
    for night in range(2):
        rows = [pair(n, "yes", "yes" if n or night else "no", input="same?") for n in range(6)]
        service.upload(rows, run_name=f"night-{night}")
        service.complete_run(runName=f"night-{night}")
    health = health_of(service)
    assert (health["datasetId"], health["unchangedPairs"], health["unrecordedPairs"]) == (
        None, 1, 1,
    )  # fmt: skip
    assert [item["itemId"] for item in health["flippingItems"]] == ["i-0"]
    # Two runs say little: the items are not called constant.
    assert health["constantItems"] == []
    assert [len(same["itemIds"]) for same in health["duplicateItems"]] == [6]


def test_health__of_a_dataset_is_that_of_its_benchmark(service: Service) -> None:
    dataset = create_items(service)
    path = f"/datasets/{dataset['id']}/health"
    with open_browser(service) as browser:
        log_in(browser, Annotator(service, "Ana").token)

        def show() -> httpx.Response:
            return browser.get(path, headers=HTML)

        assert "No benchmark has this dataset" in show().text
        service.create_agent()
        service.create_benchmark(metrics=["EXACT_MATCH"])
        assert show().headers["location"] == "/benchmarks/bench-001/dataset-health"
        service.create_benchmark("bench-002", metrics=["EXACT_MATCH"])
        assert "/benchmarks/bench-002/dataset-health" in show().text
