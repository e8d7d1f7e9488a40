"""Changes of agents and uploads start runs of benchmarks with a trigger."""

from typing import Any

from mosaico.triggers import tasks
from tests.integration.triggers.conftest import TriggerSetup
from tests.support.service import pair, pointers


def change(setup: TriggerSetup, times: int = 1) -> None:
    for number in range(times):
        setup.service.patch("/agents/agent-001", {"description": f"version {number}"})


def test_agent_updated__starts_a_run_after_30_seconds(setup: TriggerSetup) -> None:
    setup.set_triggers(agentUpdated=True)
    change(setup)
    setup.tick(seconds=29)
    assert setup.list_runs() == []
    [waiting] = setup.list_events(status="WAITING")
    setup.tick(seconds=2)
    [run] = setup.list_runs()
    assert (run["triggeredBy"], run["agentId"], run["status"], run["triggerEventId"]) == (
        "EVENT",
        "agent-001",
        "COMPLETED",
        waiting["id"],
    )
    setup.tick(minutes=5)
    assert len(setup.list_runs()) == 1


def test_agent_updated__ten_changes_start_one_run(setup: TriggerSetup) -> None:
    setup.set_triggers(agentUpdated=True)
    change(setup, times=10)
    setup.tick(seconds=31)
    [event] = setup.list_events()
    assert (event["occurrences"], len(event["runIds"])) == (10, 1)
    change(setup)
    setup.tick(seconds=31)
    assert len(setup.list_runs()) == 2


def test_agent_updated__runs_only_benchmarks_with_the_trigger_and_the_agent(
    setup: TriggerSetup,
) -> None:
    setup.service.create_agent("agent-002")
    setup.service.create_benchmark("bench-002", evaluates=["agent-002"])
    setup.service.create_benchmark("bench-003", evaluates=["agent-001"])
    setup.set_triggers("bench-002", agentUpdated=True)
    change(setup)
    setup.tick(seconds=31)
    assert (setup.list_runs(), setup.list_events()) == ([], [])


def test_tick__concurrent_workers_start_one_run(setup: TriggerSetup) -> None:
    setup.set_triggers(agentUpdated=True)
    change(setup)
    setup.tick(seconds=0)
    setup.clock.advance(seconds=31)
    # Each worker has a tick of its own, and only one of them may find the event due.
    for _ in range(3):
        tasks.tick(setup.service.resources)
    setup.service.work()
    assert len(setup.list_runs()) == 1


def test_agent_updated__archived_agent_is_ignored_with_a_reason(setup: TriggerSetup) -> None:
    setup.set_triggers(agentUpdated=True)
    setup.service.patch("/agents/agent-001", {"archived": True})
    setup.tick(seconds=31)
    [event] = setup.list_events()
    assert (event["status"], setup.list_runs()) == ("IGNORED", [])
    assert "archived" in event["reason"]


def test_dataset_updated__runs_benchmarks_that_read_the_upload(setup: TriggerSetup) -> None:
    setup.set_triggers(datasetUpdated=True)
    for benchmark_id, fields in {
        "other-dataset": {"datasetRef": "other"},
        "this-run": {"runName": "run-2"},
        "other-run": {"runName": "run-1"},
    }.items():
        setup.service.create_benchmark(
            benchmark_id, evaluates=["agent-001"], triggers={"datasetUpdated": True}, **fields
        )
    setup.service.upload([pair(1)], run_name="run-2")
    setup.tick(seconds=31)
    runs = setup.list_runs()
    assert {run["benchmarkId"] for run in runs} == {"bench-001", "this-run"}
    assert {(run["runName"], run["triggeredBy"]) for run in runs} == {("run-2", "EVENT")}


def test_dataset_updated__uploads_of_two_runs_are_both_evaluated(setup: TriggerSetup) -> None:
    setup.set_triggers(datasetUpdated=True)
    setup.service.create_benchmark(
        "first-run", evaluates=["agent-001"], triggers={"datasetUpdated": True}, runName="run-2"
    )
    setup.service.upload([pair(1)], run_name="run-2")
    setup.service.upload([pair(2)], run_name="run-3")
    setup.tick(seconds=31)
    assert {(run["benchmarkId"], run["runName"]) for run in setup.list_runs()} == {
        ("bench-001", "run-2"),
        ("bench-001", "run-3"),
        ("first-run", "run-2"),
    }


def test_triggers__invalid_triggers_are_rejected(setup: TriggerSetup) -> None:
    refused: list[tuple[str, Any]] = [
        ("/evaluates", {"triggers": {"agentUpdated": True}, "evaluates": []}),
        ("/triggers/newRun", {"source": "local", "triggers": {"newRun": {"pattern": "*"}}}),
        ("/triggers/agentUpdated", {"triggers": {"agentUpdated": "yes"}}),
        ("/triggers/onFullMoon", {"triggers": {"onFullMoon": True}}),
        ("/triggers/langfuse/0", {"triggers": {"langfuse": [{"event": "trace"}]}}),
        (
            "/triggers/langfuse/0/monitor-alert/label",
            {"triggers": {"langfuse": [{"event": "monitor-alert", "label": "x"}]}},
        ),
        ("/triggers", {"triggers": None}),
    ]
    for at, fields in refused:
        problem = setup.service.expect_problem(422, "PATCH", "/benchmarks/bench-001", fields)
        assert pointers(problem) == [at]
