"""Agents and uploads that change start runs of the benchmarks that wait for them."""

from typing import Any

from app.triggers import tasks
from tests.integration.triggers.conftest import Scene
from tests.support.service import pair, pointers


def change(scene: Scene, times: int = 1) -> None:
    for number in range(times):
        scene.service.patch("/agents/agent-001", {"description": f"version {number}"})


def test_a_changed_agent_is_run_half_a_minute_later(scene: Scene) -> None:
    scene.triggers(agentUpdated=True)
    change(scene)
    scene.tick(seconds=29)
    assert scene.runs() == []
    [waiting] = scene.events(status="WAITING")
    scene.tick(seconds=2)
    [run] = scene.runs()
    assert (run["triggeredBy"], run["agentId"], run["status"], run["triggerEventId"]) == (
        "EVENT",
        "agent-001",
        "COMPLETED",
        waiting["id"],
    )
    scene.tick(minutes=5)
    assert len(scene.runs()) == 1


def test_ten_changes_in_a_short_time_start_one_run(scene: Scene) -> None:
    scene.triggers(agentUpdated=True)
    change(scene, times=10)
    scene.tick(seconds=31)
    [event] = scene.events()
    assert (event["occurrences"], len(event["runIds"])) == (10, 1)
    change(scene)
    scene.tick(seconds=31)
    assert len(scene.runs()) == 2


def test_only_benchmarks_that_asked_for_it_and_evaluate_the_agent_are_run(scene: Scene) -> None:
    scene.service.agent("agent-002")
    scene.service.benchmark("bench-002", evaluates=["agent-002"])
    scene.service.benchmark("bench-003", evaluates=["agent-001"])
    scene.triggers("bench-002", agentUpdated=True)
    change(scene)
    scene.tick(seconds=31)
    assert (scene.runs(), scene.events()) == ([], [])


def test_a_patch_that_changes_nothing_is_no_change(scene: Scene) -> None:
    scene.triggers(agentUpdated=True)
    scene.service.patch("/agents/agent-001", {})
    scene.tick(seconds=31)
    assert scene.events() == []


def test_several_workers_that_tick_at_once_start_one_run(scene: Scene) -> None:
    scene.triggers(agentUpdated=True)
    change(scene)
    scene.tick(seconds=0)
    scene.clock.go_on(seconds=31)
    for _ in range(3):
        tasks.tick(scene.service.resources)
    scene.service.work()
    assert len(scene.runs()) == 1


def test_an_agent_that_was_put_away_meanwhile_is_told_of(scene: Scene) -> None:
    scene.triggers(agentUpdated=True)
    scene.service.patch("/agents/agent-001", {"archived": True})
    scene.tick(seconds=31)
    [event] = scene.events()
    assert (event["status"], scene.runs()) == ("IGNORED", [])
    assert "archived" in event["reason"]


def test_an_upload_runs_the_benchmarks_that_would_read_it(scene: Scene) -> None:
    scene.triggers(datasetUpdated=True)
    for benchmark_id, fields in {
        "other-dataset": {"datasetRef": "other"},
        "this-run": {"runName": "night-2"},
        "other-run": {"runName": "night-1"},
    }.items():
        scene.service.benchmark(
            benchmark_id, evaluates=["agent-001"], triggers={"datasetUpdated": True}, **fields
        )
    scene.service.upload([pair(1)], run_name="night-2")
    scene.tick(seconds=31)
    runs = scene.runs()
    assert {run["benchmarkId"] for run in runs} == {"bench-001", "this-run"}
    assert {(run["runName"], run["triggeredBy"]) for run in runs} == {("night-2", "EVENT")}


def test_uploads_of_two_runs_that_follow_each_other_are_both_judged(scene: Scene) -> None:
    scene.triggers(datasetUpdated=True)
    scene.service.benchmark(
        "first-run", evaluates=["agent-001"], triggers={"datasetUpdated": True}, runName="night-2"
    )
    scene.service.upload([pair(1)], run_name="night-2")
    scene.service.upload([pair(2)], run_name="night-3")
    scene.tick(seconds=31)
    assert {(run["benchmarkId"], run["runName"]) for run in scene.runs()} == {
        ("bench-001", "night-2"),
        ("bench-001", "night-3"),
        ("first-run", "night-2"),
    }


def test_triggers_that_mean_nothing_are_refused(scene: Scene) -> None:
    refused: list[tuple[str, Any]] = [
        ("/evaluates", {"triggers": {"agentUpdated": True}, "evaluates": []}),
        ("/triggers/newRun", {"triggers": {"newRun": {"pattern": "*"}}}),
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
        problem = scene.service.refused(422, "PATCH", "/benchmarks/bench-001", fields)
        assert pointers(problem) == [at]


def test_triggers_are_shown_replaced_and_off_by_default(scene: Scene) -> None:
    off: dict[str, Any] = {
        "agentUpdated": False,
        "datasetUpdated": False,
        "newRun": None,
        "langfuse": [],
    }
    assert scene.service.get("/benchmarks/bench-001")["triggers"] == off
    rule = {"event": "remote-experiment", "projectId": None, "datasetName": "support"}
    scene.triggers(agentUpdated=True, langfuse=[rule])
    shown = scene.service.get("/benchmarks/bench-001")["triggers"]
    assert shown == {**off, "agentUpdated": True, "langfuse": [rule]}
    scene.triggers(datasetUpdated=True)
    shown = scene.service.get("/benchmarks/bench-001")["triggers"]
    assert shown == {**off, "datasetUpdated": True}
