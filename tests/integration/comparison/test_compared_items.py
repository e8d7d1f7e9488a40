"""The items of two runs side by side, in the API; the numbers are by hand."""

from typing import Any

from tests.integration.comparison.conftest import CompleteRun
from tests.support.service import JSON, Service, pair

ITEMS_PATH = "/benchmark-runs/compare/items"


def trial(item: int, number: int, *, passed: bool, **more: Any) -> JSON:
    """A trial of an item; the input names the item."""
    answer = "yes" if passed else "no"
    trace = pair(item, "yes", answer, input=f"Question {item}", trial=number, **more)
    return {**trace, "traceId": f"t-{item}-{number}"}


def test_compared_items__have_the_trials_of_both_runs_and_the_worst_fall_first(
    service: Service, complete_run: CompleteRun
) -> None:
    """Item 0 falls from 2 of 2 to 0 of 2, item 1 from 2 of 2 to 1 of 2, item 2 stays, item 3 rises."""
    before = [(True, True), (True, True), (True, True), (False, False)]
    after = [(False, False), (True, False), (True, True), (True, True)]
    failed_tool = {"toolCalls": [{"name": "search", "ok": False}]}
    base, run = (
        complete_run(
            name,
            [
                trial(
                    item,
                    number,
                    passed=passed,
                    **(failed_tool if name == "now" and item == 0 else {}),
                )
                for item, trials in enumerate(side)
                for number, passed in enumerate(trials)
            ],
        )
        for name, side in (("before", before), ("now", after))
    )
    pair_of_runs = {"baseline": base["id"], "candidate": run["id"]}
    items = service.list_items(ITEMS_PATH, **pair_of_runs)
    assert [item["itemId"] for item in items] == ["i-0", "i-1", "i-2", "i-3"]
    assert [item["change"] for item in items] == [-1.0, -0.5, 0.0, 1.0]
    assert (items[1]["baselineTrials"], items[1]["candidateTrials"]) == ([1.0, 1.0], [1.0, 0.0])
    assert [item["errors"] for item in items] == [["tool search failed"], [], [], []]
    assert items[0]["input"] == "Question 0"
    assert all(item["isSameTask"] for item in items)
    assert items[0]["metrics"] == [
        {"metric": "ACCURACY", "baseline": 1.0, "candidate": 0.0, "change": -1.0}
    ]
    rising = service.list_items(ITEMS_PATH, **pair_of_runs, sort="rise")
    assert [item["itemId"] for item in rising] == ["i-3", "i-2", "i-1", "i-0"]
    pages = service.list_items(ITEMS_PATH, **pair_of_runs, sort="item", limit=1)
    assert [item["itemId"] for item in pages] == ["i-0", "i-1", "i-2", "i-3"]
    swapped = service.list_items(ITEMS_PATH, baseline=run["id"], candidate=base["id"], sort="item")
    assert [item["change"] for item in swapped] == [1.0, 0.5, 0.0, -1.0]


def test_compared_items__an_item_with_another_expected_output_is_another_task(
    service: Service, complete_run: CompleteRun
) -> None:
    base = complete_run("before", [trial(0, 0, passed=True), trial(1, 0, passed=True)])
    changed = {**trial(0, 0, passed=True), "expectedOutput": "maybe"}
    run = complete_run("now", [changed, trial(2, 0, passed=True)])
    [item] = service.list_items(ITEMS_PATH, baseline=base["id"], candidate=run["id"])
    assert (item["itemId"], item["isSameTask"]) == ("i-0", False)


def test_compared_items__an_unknown_metric_and_a_wrong_cursor_are_refused(
    service: Service, complete_run: CompleteRun
) -> None:
    run = complete_run("before", [trial(0, 0, passed=True)])
    pair_of_runs = f"baseline={run['id']}&candidate={run['id']}"
    problem = service.expect_problem(422, "GET", f"{ITEMS_PATH}?{pair_of_runs}&metric=ROUGE")
    assert "no metric 'ROUGE'" in problem["detail"]
    # bm90 is Base64, and no JSON.
    assert service.expect_problem(422, "GET", f"{ITEMS_PATH}?{pair_of_runs}&cursor=bm90")
