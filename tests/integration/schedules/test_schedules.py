"""Schedules over the API: fields and validation errors."""

from datetime import UTC, datetime, timedelta

from tests.integration.schedules.conftest import NIGHTLY
from tests.support.service import JSON, Service, pointers


def scheduled(service: Service, **more: object) -> JSON:
    return service.post("/schedule-configs", {"id": "s-1", **NIGHTLY, **more})


def test_create_schedule__defaults_of_original_system(prepared_service: Service) -> None:
    before = datetime.now(UTC)
    created = scheduled(prepared_service)
    assert created | NIGHTLY == created
    assert {
        "timezone": "UTC",
        "enabled": True,
        "lastRunAt": None,
        "consecutiveFailures": 0,
        "maxConsecutiveFailures": 3,
        "autoDisableOnFailure": True,
        "description": None,
        "runNamePattern": None,
        "misfirePolicy": "FIRE_ONCE",
        "concurrencyPolicy": "FORBID",
        "catchupWindowSeconds": 86400,
        "dstPolicy": "SPRING",
        "disabledReason": None,
    }.items() <= created.items()
    due = datetime.fromisoformat(created["nextRunAt"])
    assert before < due <= datetime.now(UTC) + timedelta(days=1)
    assert (due.hour, due.minute, due.second) == (2, 0, 0)
    assert prepared_service.get("/schedule-configs/s-1") == created
    assert prepared_service.get("/schedule-configs")["items"] == [created]
    assert prepared_service.get("/schedule-configs", enabled=False)["items"] == []
    either = {"agentId": ["other", created["agentId"]], "benchmarkId": ["other", "third"]}
    assert prepared_service.list_items("/schedule-configs", agentId=either["agentId"]) == [created]
    assert prepared_service.list_items("/schedule-configs", **either) == []


def test_change_schedule__every_field_can_be_changed_and_reset(prepared_service: Service) -> None:
    created = scheduled(prepared_service)
    prepared_service.create_agent("agent-002")
    changed: JSON = {
        "name": "weekly",
        "description": "on Mondays",
        "agentId": "agent-002",
        "cronExpression": "0 0 3 * * MON",
        "timezone": "Europe/Rome",
        "dstPolicy": "ONCE",
        "enabled": False,
        "misfirePolicy": "SKIP",
        "concurrencyPolicy": "REPLACE",
        "catchupWindowSeconds": 60,
        "autoDisableOnFailure": False,
        "maxConsecutiveFailures": 5,
    }
    for name, value in changed.items():
        assert prepared_service.patch("/schedule-configs/s-1", {name: value})[name] == value
    assert prepared_service.get("/schedule-configs/s-1")["nextRunAt"] is None
    put_back = prepared_service.put("/schedule-configs/s-1", NIGHTLY)
    assert {**put_back, "revision": 1, "updatedAt": created["updatedAt"]} == created
    prepared_service.delete("/schedule-configs/s-1")
    prepared_service.expect_problem(404, "GET", "/schedule-configs/s-1")


def test_schedules_api__unknown_benchmark_or_agent_is_rejected(prepared_service: Service) -> None:
    prepared_service.expect_problem(
        404, "POST", "/schedule-configs", {**NIGHTLY, "benchmarkId": "none"}
    )
    prepared_service.expect_problem(
        404, "POST", "/schedule-configs", {**NIGHTLY, "agentId": "none"}
    )
    prepared_service.create_benchmark("picky", evaluates=["agent-001"])
    prepared_service.create_agent("agent-002")
    other = {**NIGHTLY, "benchmarkId": "picky", "agentId": "agent-002"}
    assert pointers(prepared_service.expect_problem(422, "POST", "/schedule-configs", other)) == [
        "/agentId"
    ]
    prepared_service.patch("/agents/agent-002", {"archived": True})
    prepared_service.expect_problem(
        409, "POST", "/schedule-configs", {**NIGHTLY, "agentId": "agent-002"}
    )


def test_delete__benchmark_and_agent_of_schedule_are_protected(prepared_service: Service) -> None:
    scheduled(prepared_service)
    for path in ("/benchmarks/bench-001", "/agents/agent-001"):
        problem = prepared_service.expect_problem(409, "DELETE", path)
        assert problem["type"] == "/problems/dependents-exist"


def test_trigger_now__starts_run_and_keeps_next_run(prepared_service: Service) -> None:
    created = scheduled(prepared_service, enabled=False)
    fire = prepared_service.post("/schedule-configs/s-1/trigger")
    assert (fire["status"], fire["triggeredBy"]) == ("STARTED", "MANUAL")
    prepared_service.work()
    assert prepared_service.get(f"/benchmark-runs/{fire['runId']}")["status"] == "COMPLETED"
    assert prepared_service.get("/schedule-configs/s-1/fires")["items"] == [fire]
    after = prepared_service.get("/schedule-configs/s-1")
    assert after["lastRunAt"] is not None
    assert after["nextRunAt"] == created["nextRunAt"]


def test_trigger_now__active_run_with_forbid_is_a_conflict(prepared_service: Service) -> None:
    scheduled(prepared_service)
    run = prepared_service.post("/schedule-configs/s-1/trigger")["runId"]
    problem = prepared_service.expect_problem(409, "POST", "/schedule-configs/s-1/trigger")
    assert run in problem["detail"]
    assert len(prepared_service.list_items("/schedule-configs/s-1/fires")) == 1
    prepared_service.post(f"/benchmark-runs/{run}/cancel")
    assert prepared_service.post("/schedule-configs/s-1/trigger")["status"] == "STARTED"


def test_preview__description_instants_and_clock_notes(service: Service) -> None:
    schedule_preview = service.post(
        "/schedule-configs/preview",
        {
            "cronExpression": "0 30 2 * * *",
            "timezone": "Europe/Rome",
            "after": "2026-03-28T12:00:00+01:00",
            "count": 2,
        },
    )
    assert schedule_preview["description"] == "at 02:30, every day"
    assert schedule_preview["next"] == ["2026-03-30T02:30:00+02:00", "2026-03-31T02:30:00+02:00"]
    [note] = schedule_preview["notes"]
    assert note["at"] == "2026-03-29T03:00:00+02:00"
    assert "02:30 does not exist" in note["text"]
