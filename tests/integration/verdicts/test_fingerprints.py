"""Fingerprints: runs with the same plan and most of the same items share one."""

from tests.integration.verdicts.conftest import CompleteRun, traces
from tests.support.service import JSON, Service


def asking_otherwise(uploaded: list[JSON], items: range) -> list[JSON]:
    """The same tasks, some of which are shown to the agent in other words."""
    return [
        trace | {"tags": ["task:reworded" if number in items else "task:first"]}
        for number, trace in enumerate(uploaded)
    ]


def test_fingerprint__survives_few_changed_items_but_not_many(
    service: Service, complete_run: CompleteRun
) -> None:
    first = complete_run("monday", traces(()))["fingerprint"]
    # 39 of 40 items are the same, then 35 of 39, then again 35 of 40.
    lacking_one = complete_run("tuesday", traces(())[1:])["fingerprint"]
    lacking_five = complete_run("wednesday", traces(())[5:])
    complete = complete_run("thursday", traces(()))["fingerprint"]
    assert lacking_one == first
    assert lacking_five["fingerprint"] != first
    # It is compared on what both have, all the same.
    assert lacking_five["verdict"]["items"]["compared"] == 35
    assert "4 items are missing" in lacking_five["verdict"]["differences"]
    # Who does the same on the same items as on Monday goes on with Monday's history.
    assert complete == first


def test_fingerprint__changes_with_the_tasks_of_items(
    service: Service, complete_run: CompleteRun
) -> None:
    uploaded = traces(())
    first = complete_run("monday", asking_otherwise(uploaded, range(0)))["fingerprint"]
    some = complete_run("tuesday", asking_otherwise(uploaded, range(2)))
    many = complete_run("wednesday", asking_otherwise(uploaded, range(10)))
    # 2 of 40 items have another task, then 8 more; nine tenths must be equal.
    assert (some["fingerprint"], some["verdict"]["items"]["revised"]) == (first, 2)
    assert many["fingerprint"] != first
    assert "8 items have another task or expected output" in many["verdict"]["differences"]
    revised = [trace | {"expectedOutput": "maybe"} for trace in uploaded]
    assert complete_run("thursday", revised)["fingerprint"] not in {first, many["fingerprint"]}


def test_fingerprint__ignores_traces_without_item_ids(
    service: Service, complete_run: CompleteRun
) -> None:
    def live(name: str) -> list[JSON]:
        return [
            {"traceId": f"{name}-{number}", "expectedOutput": "yes", "output": "yes"}
            for number in range(10)
        ]

    first, second = complete_run("monday", live("m")), complete_run("tuesday", live("t"))
    assert first["fingerprint"] == second["fingerprint"]


def test_fingerprint__is_shared_by_agents_with_the_same_items(
    service: Service, complete_run: CompleteRun
) -> None:
    first = complete_run("monday", traces(()))
    service.create_agent("agent-002")
    other = service.complete_run(runName="monday", agentId="agent-002")
    assert other["fingerprint"] == first["fingerprint"]
    service.patch("/benchmarks/bench-001/kpis/quality", {"formula": "ACCURACY * 2"})
    assert service.complete_run(runName="monday")["fingerprint"] != first["fingerprint"]
