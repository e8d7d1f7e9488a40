"""The answers of a run beside those of its baseline; the counts and the order are by hand."""

from collections.abc import Sequence

import pytest

from tests.integration.comparison.conftest import CompleteRun, make_complete_run
from tests.support.service import JSON, Service, pair

HTML = {"Accept": "text/html"}
LOOKUP = {"toolCalls": [{"name": "lookup", "ok": False}]}


def answers(outputs: Sequence[str], **more: object) -> list[JSON]:
    """An answer to each item; "yes" is right. The first answer has `more`."""
    return [
        pair(number, "yes", output, input=f"Question {number}", **(more if number == 0 else {}))
        for number, output in enumerate(outputs)
    ]


@pytest.fixture(scope="module")
def two_nights(module_service: Service) -> tuple[JSON, JSON]:
    """Items 0 and 1 fall, 2 rises, 3 stays wrong, 4 to 7 stay right; in item 0 a tool failed."""
    complete_run = make_complete_run(module_service)
    before = ["yes", "yes", "no", "no", *["yes"] * 4]
    now = ["nobody knows", "no", "yes", "no", *["yes"] * 4]
    return complete_run("before", answers(before)), complete_run("now", answers(now, **LOOKUP))


def test_answers__fall_first_and_are_counted(
    module_service: Service, two_nights: tuple[JSON, JSON]
) -> None:
    base, run = two_nights
    page = module_service.get(f"/benchmark-runs/{run['id']}/answers")
    assert page["counts"] == {"all": 8, "fell": 2, "wrong": 3, "rose": 1}
    assert (page["metric"], page["baselineRunId"]) == ("ACCURACY", base["id"])
    assert [item["itemId"] for item in page["items"]] == [
        "i-0", "i-1", "i-3", "i-4", "i-5", "i-6", "i-7", "i-2",
    ]  # fmt: skip
    first = page["items"][0]
    assert (first["input"], first["expectedOutput"], first["change"]) == ("Question 0", "yes", -1.0)
    assert (first["before"]["output"], first["before"]["isRight"]) == ("yes", True)
    assert (first["now"]["output"], first["now"]["isRight"]) == ("nobody knows", False)
    assert first["failures"] == ["tool lookup failed", "wrong answer"]


def test_answers__are_filtered(module_service: Service, two_nights: tuple[JSON, JSON]) -> None:
    path = f"/benchmark-runs/{two_nights[1]['id']}/answers"

    def ids(**parameters: str) -> list[str]:
        return [item["itemId"] for item in module_service.list_items(path, **parameters)]

    assert ids(show="fell") == ["i-0", "i-1"]
    assert ids(show="wrong") == ["i-0", "i-1", "i-3"]
    assert ids(show="rose") == ["i-2"]
    assert ids(show="wrong", failure="tool lookup failed") == ["i-0"]
    assert ids(tool="lookup") == ["i-0"]
    assert ids(text="KNOWS") == ["i-0"]
    assert ids(text="100%") == []
    assert ids(show="wrong", limit="1") == ["i-0", "i-1", "i-3"]


def test_results__wrong_are_those_of_the_kpi_that_decides(
    module_service: Service, two_nights: tuple[JSON, JSON]
) -> None:
    """No agent failed: `failed` finds nothing, and 3 of 8 answers are wrong."""
    path = f"/benchmark-runs/{two_nights[1]['id']}/results"
    assert module_service.list_items(path, state="failed") == []
    wrong = module_service.list_items(path, state="wrong")
    assert [trace["itemId"] for trace in wrong] == ["i-0", "i-1", "i-3"]
    html = module_service.client.get(
        f"/runs/{two_nights[1]['id']}/traces?state=wrong", headers=HTML
    ).text
    assert html.count("✗</span> wrong") == 3
    assert "scored" not in html.partition("<tbody>")[2]


def test_results__of_a_run_without_right_and_wrong_refuse_the_filter(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["LATENCY_MS"])
    service.upload([pair(0, latencyMs=4)])
    run = service.complete_run()
    response = service.client.get(
        f"/api/v1/benchmark-runs/{run['id']}/results", params={"state": "wrong"}
    )
    assert response.status_code == 422
    assert service.get(f"/benchmark-runs/{run['id']}/answers")["counts"]["wrong"] is None


def test_answers__of_a_failed_agent_are_wrong(service: Service, complete_run: CompleteRun) -> None:
    failed = pair(0, "yes", None, outcome="agent_error", error="the agent stopped")
    run = complete_run("only", [failed, *answers(["yes"] * 6)[1:]])
    [wrong] = service.list_items(f"/benchmark-runs/{run['id']}/answers", show="wrong")
    assert (wrong["itemId"], wrong["before"]) == ("i-0", None)
    assert (wrong["now"]["error"], wrong["failures"]) == ("the agent stopped", ["agent error"])


def test_run_page__shows_the_five_worst_answers_without_a_click(
    module_service: Service, two_nights: tuple[JSON, JSON]
) -> None:
    html = module_service.client.get(f"/runs/{two_nights[1]['id']}", headers=HTML).text
    assert "<del>nobody knows</del>" in html
    assert "Question 0" in html
    assert "Question 1" in html
    assert "Question 5" not in html, "what did not fall is behind All"
    everything = module_service.client.get(
        f"/runs/{two_nights[1]['id']}?show=all", headers=HTML
    ).text
    assert "Question 5" in everything


def test_item_page__has_the_neighbors_of_the_list_that_one_came_from(
    module_service: Service, two_nights: tuple[JSON, JSON]
) -> None:
    path = f"/runs/{two_nights[1]['id']}/items"
    query = {"item": "i-1", "show": "wrong"}
    html = module_service.client.get(path, params=query, headers=HTML).text
    assert "2 of 3 that are wrong" in html
    assert "item=i-0" in html.partition('rel="prev"')[2].partition(">")[0]
    assert "item=i-3" in html.partition('rel="next"')[2].partition(">")[0]
    without_list = module_service.client.get(path, params={"item": "i-1"}, headers=HTML).text
    assert 'rel="next"' not in without_list


def test_item_page__b_can_be_any_other_night(
    module_service: Service, two_nights: tuple[JSON, JSON]
) -> None:
    base, run = two_nights
    path = f"/runs/{run['id']}/items"
    query = {"item": "i-0", "base": run["id"], "run": base["id"]}
    response = module_service.client.get(path, params=query, headers=HTML, follow_redirects=False)
    assert response.headers["location"].startswith(f"/runs/{base['id']}/items?item=i-0")


def test_nights__of_an_item_have_each_agent(service: Service, complete_run: CompleteRun) -> None:
    service.create_agent("agent-002")
    first = complete_run("first", answers(["yes"] * 6))
    other = complete_run("other", answers(["no", *["yes"] * 5]), agent="agent-002")
    last = complete_run("last", answers(["no"] * 6)[1:])
    nights = service.list_items(f"/benchmark-runs/{last['id']}/nights", itemId="i-0")
    assert [(night["runId"], night["isRight"]) for night in nights] == [
        (first["id"], True),
        (other["id"], False),
        (last["id"], None),
    ]
    assert [night["traces"] for night in nights] == [1, 1, 0]


def test_distributions__count_the_values_of_both_runs(
    module_service: Service, two_nights: tuple[JSON, JSON]
) -> None:
    """Before 6 of 8 are right, now 5 of 8."""
    items = module_service.list_items(f"/benchmark-runs/{two_nights[1]['id']}/distributions")
    [accuracy] = [item for item in items if item["metric"] == "ACCURACY"]
    assert accuracy["before"] == [2, *[0] * 8, 6]
    assert accuracy["now"] == [3, *[0] * 8, 5]
    assert (accuracy["edges"][0], accuracy["edges"][-1]) == (0.0, 1.0)


def test_costs__are_those_of_the_runs_up_to_this_one(
    service: Service, complete_run: CompleteRun
) -> None:
    runs = [
        complete_run(name, [{**trace, "costUsd": cost} for trace in answers(outputs)])
        for name, cost, outputs in (("a", 0.1, ["yes"] * 6), ("b", 0.3, ["yes"] * 3 + ["no"] * 3))
    ]
    costs = service.list_items(f"/benchmark-runs/{runs[1]['id']}/costs")
    assert [cost["runId"] for cost in costs] == [run["id"] for run in runs]
    assert [cost["quality"] for cost in costs] == [1.0, 0.5]
    assert [cost["costUsd"] for cost in costs] == pytest.approx([0.1, 0.3])
    assert len(service.list_items(f"/benchmark-runs/{runs[0]['id']}/costs")) == 1


def test_verdict__says_that_only_one_slice_fell(
    service: Service, complete_run: CompleteRun
) -> None:
    """8 of 10 German answers fall, none of the 30 others."""

    def night(name: str, wrong: int) -> JSON:
        return complete_run(
            name,
            [
                pair(
                    number,
                    "yes",
                    "no" if number < wrong else "yes",
                    tags=["lang:de" if number < 10 else f"lang:{number % 3}"],
                )
                for number in range(40)
            ],
        )

    night("before", 0)
    run = night("now", 8)
    fallen = run["verdict"]["fallenSlice"]
    assert (fallen["tag"], fallen["items"], fallen["change"]) == ("lang:de", 10, -0.8)
    assert (fallen["otherItems"], fallen["otherChange"]) == (30, 0.0)
    assert run["verdict"]["explanation"].startswith("Only lang:de fell")
    html = service.client.get(f"/runs/{run['id']}", headers=HTML).text
    assert f"/runs/{run['id']}?show=fell&amp;tag=lang%3Ade#answers" in html


def test_trace_page__shows_tool_calls_and_attributes_without_a_transcript(
    service: Service, complete_run: CompleteRun
) -> None:
    call = {"name": "search", "arguments": {"query": "Oslo"}, "ok": False, "latencyMs": 41}
    trace = pair(
        0, "yes", "no", input="Where?", toolCalls=[call], attributes={"model": "gpt-5.2-mini"}
    )
    run = complete_run("only", [trace, *answers(["yes"] * 6)[1:]])
    html = service.client.get(f"/runs/{run['id']}/traces/t-0", headers=HTML).text
    text = html.partition("<main")[2]
    assert "tool search" in text
    assert "&#34;query&#34;: &#34;Oslo&#34;" in text
    assert "41 ms" in text
    assert "gpt-5.2-mini" in text
    assert "✗</span> wrong" in text


def test_item_page__says_what_changed_between_two_nights(
    service: Service, complete_run: CompleteRun
) -> None:
    base, run = (
        complete_run(
            name, [{**trace, "attributes": {"model": model}} for trace in answers(outputs)]
        )
        for name, model, outputs in (("a", "gpt-5.1", ["yes"] * 6), ("b", "gpt-5.2", ["no"] * 6))
    )
    html = service.client.get(
        f"/runs/{run['id']}/items", params={"item": "i-0", "base": base["id"]}, headers=HTML
    ).text
    changed = html.partition("What changed between A and B")[2].partition("</table>")[0]
    assert "gpt-5.1" in changed
    assert "gpt-5.2" in changed
    assert "expected answer" not in changed
