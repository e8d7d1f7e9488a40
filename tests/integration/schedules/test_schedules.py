"""Schedules over the API: what they are made of, and what is refused."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from app.agents.queries import get_agent
from app.core.errors import NotFound
from app.schedules.service import change_schedule
from tests.integration.schedules.conftest import NIGHTLY
from tests.support.service import JSON, Service, pointers


def scheduled(service: Service, **more: object) -> JSON:
    return service.post("/schedule-configs", {"id": "s-1", **NIGHTLY, **more})


def test_a_new_schedule_has_the_defaults_of_the_handover(ready: Service) -> None:
    before = datetime.now(UTC)
    created = scheduled(ready)
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
    assert ready.get("/schedule-configs/s-1") == created
    assert ready.get("/schedule-configs")["items"] == [created]
    assert ready.get("/schedule-configs", enabled=False)["items"] == []


def test_every_field_can_be_changed_and_put_back(ready: Service) -> None:
    created = scheduled(ready)
    ready.agent("agent-002")
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
        assert ready.patch("/schedule-configs/s-1", {name: value})[name] == value
    assert ready.get("/schedule-configs/s-1")["nextRunAt"] is None
    put_back = ready.put("/schedule-configs/s-1", NIGHTLY)
    assert {**put_back, "revision": 1, "updatedAt": created["updatedAt"]} == created
    ready.delete("/schedule-configs/s-1")
    ready.refused(404, "GET", "/schedule-configs/s-1")


WRONG: list[tuple[JSON, str, str]] = [
    ({"cronExpression": "0 0 2 * *"}, "/cronExpression", "six"),
    ({"cronExpression": "0 0 25 * * *"}, "/cronExpression", "column 5.*hour 25"),
    ({"cronExpression": "0 0 0 30 2 *"}, "/cronExpression", "never fires"),
    ({"cronExpression": "0 0 0 ? * MON,TUE#6"}, "/cronExpression", "TUE#6"),
    ({"timezone": "Mars/Phobos"}, "/timezone", "IANA"),
    ({"timezone": "../../etc/passwd"}, "/timezone", "IANA"),
    ({"timezone": ""}, "/timezone", "IANA"),
    ({"runNamePattern": "nightly-*"}, "/runNamePattern", "source"),
    ({"maxConsecutiveFailures": 0}, "/maxConsecutiveFailures", "1"),
    ({"misfirePolicy": "LATER"}, "/misfirePolicy", "FIRE_ONCE"),
]


def test_what_is_wrong_is_named_with_its_field(ready: Service) -> None:
    scheduled(ready)
    for body, pointer, says in WRONG:
        for method, path in (("POST", "/schedule-configs"), ("PUT", "/schedule-configs/s-1")):
            problem = ready.refused(422, method, path, {**NIGHTLY, **body})
            assert pointers(problem) == [pointer]
            assert re.search(says, problem["errors"][0]["detail"])


def test_an_unknown_benchmark_or_agent_is_refused_as_runs_are(ready: Service) -> None:
    ready.refused(404, "POST", "/schedule-configs", {**NIGHTLY, "benchmarkId": "none"})
    ready.refused(404, "POST", "/schedule-configs", {**NIGHTLY, "agentId": "none"})
    ready.benchmark("picky", evaluates=["agent-001"])
    ready.agent("agent-002")
    other = {**NIGHTLY, "benchmarkId": "picky", "agentId": "agent-002"}
    assert pointers(ready.refused(422, "POST", "/schedule-configs", other)) == ["/agentId"]
    ready.patch("/agents/agent-002", {"archived": True})
    ready.refused(409, "POST", "/schedule-configs", {**NIGHTLY, "agentId": "agent-002"})


def test_what_a_schedule_needs_is_not_deleted_under_it(ready: Service) -> None:
    scheduled(ready)
    for path in ("/benchmarks/bench-001", "/agents/agent-001"):
        assert "schedules" in ready.refused(409, "DELETE", path)["detail"]


def test_a_schedule_is_not_given_an_agent_that_is_deleted_at_this_moment(ready: Service) -> None:
    scheduled(ready)
    ready.agent("agent-002")
    with ready.resources.db.begin() as session:
        agent = get_agent(session, "agent-002")
        ready.delete("/agents/agent-002")
        with pytest.raises(NotFound, match="deleted in the meantime"):
            change_schedule(session, "s-1", {"agent_id": agent.id}, ready.resources.clock())
        session.rollback()
    assert ready.get("/schedule-configs/s-1")["agentId"] == "agent-001"


def test_a_taken_id_is_a_conflict(ready: Service) -> None:
    scheduled(ready)
    ready.refused(409, "POST", "/schedule-configs", {"id": "s-1", **NIGHTLY})


def test_a_schedule_is_triggered_now_and_tells_the_run(ready: Service) -> None:
    created = scheduled(ready, enabled=False)
    fire = ready.post("/schedule-configs/s-1/trigger")
    assert (fire["status"], fire["triggeredBy"]) == ("STARTED", "MANUAL")
    ready.work()
    assert ready.get(f"/benchmark-runs/{fire['runId']}")["status"] == "COMPLETED"
    assert ready.get("/schedule-configs/s-1/fires")["items"] == [fire]
    after = ready.get("/schedule-configs/s-1")
    assert after["lastRunAt"] is not None
    assert after["nextRunAt"] == created["nextRunAt"]


def test_what_would_only_be_skipped_is_not_triggered_by_hand(ready: Service) -> None:
    scheduled(ready)
    run = ready.post("/schedule-configs/s-1/trigger")["runId"]
    told = ready.refused(409, "POST", "/schedule-configs/s-1/trigger")
    assert run in told["detail"]
    assert len(ready.listed("/schedule-configs/s-1/fires")) == 1
    ready.post(f"/benchmark-runs/{run}/cancel")
    assert ready.post("/schedule-configs/s-1/trigger")["status"] == "STARTED"


def test_a_preview_gives_words_instants_and_the_changes_of_the_clocks(service: Service) -> None:
    seen = service.post(
        "/schedule-configs/preview",
        {
            "cronExpression": "0 30 2 * * *",
            "timezone": "Europe/Rome",
            "after": "2026-03-28T12:00:00+01:00",
            "count": 2,
        },
    )
    assert seen["description"] == "at 02:30, every day"
    assert seen["next"] == ["2026-03-30T02:30:00+02:00", "2026-03-31T02:30:00+02:00"]
    [note] = seen["notes"]
    assert note["at"] == "2026-03-29T03:00:00+02:00"
    assert "02:30 does not exist" in note["text"]


@pytest.mark.parametrize(
    "after", ["2026-03-28T12:00:00", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"]
)
def test_a_preview_from_no_instant_is_refused_with_the_place(service: Service, after: str) -> None:
    asked = {"cronExpression": "@daily", "after": after}
    problem = service.refused(422, "POST", "/schedule-configs/preview", asked)
    assert [error["pointer"] for error in problem["errors"]] == ["/after"]


@pytest.mark.parametrize("after", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"])
@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Kiritimati"])
def test_a_preview_from_an_end_of_the_calendar_is_answered(
    service: Service, zone: str, after: str
) -> None:
    asked = {"cronExpression": "@daily", "timezone": zone, "after": after}
    assert service.send("POST", "/schedule-configs/preview", asked).status_code in (200, 422)
