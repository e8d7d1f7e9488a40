"""Audit log: each change writes an entry in its own transaction, and entries cannot be removed."""

from contextlib import AbstractContextManager
from datetime import timedelta

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from mosaico.access.audit import AuditActor, AuditResource, delete_old_entries, record_action
from mosaico.core.clock import utc_now
from mosaico.core.correlation import bind_correlation
from mosaico.core.defaults import KEEP_AUDIT_ENTRIES
from tests.support.service import JSON, Service, pair


def lines(service: Service, **expected_fields: str) -> list[JSON]:
    """The entries of the audit log, oldest first."""
    return service.list_items("/audit", **expected_fields)[::-1]


def begun(service: Service) -> AbstractContextManager[Session]:
    return service.resources.db.begin()


def audit_entries(service: Service) -> list[tuple[str, str, str | None, list[str]]]:
    return [
        (line["action"], line["resourceType"], line["resourceId"], line["fields"])
        for line in lines(service)
    ]


def key_id(service: Service) -> str:
    (key,) = service.get("/keys")["items"]
    return str(key["id"])


def test_audit_log__every_change_has_actor_action_resource_and_fields(service: Service) -> None:
    service.create_agent(langfuseSecretKey="sk-lf-canary")
    service.patch("/agents/agent-001", {"description": "d", "langfuseSecretKey": "sk-lf-second"})
    service.create_benchmark()
    service.post("/benchmarks/bench-001/kpis", {"id": "k", "name": "k", "formula": "ROUGE"})
    service.delete("/benchmarks/bench-001/kpis/k")
    upload = service.upload([pair(1)])
    run = service.start_run()
    service.post(f"/benchmark-runs/{run['id']}/cancel")
    again = service.post(f"/benchmark-runs/{run['id']}/retry")
    assert audit_entries(service) == [
        ("create_agent", "agents", "agent-001", ["id", "langfuseSecretKey", "name"]),
        ("change_agent", "agents", "agent-001", ["description", "langfuseSecretKey"]),
        ("create_benchmark", "benchmarks", "bench-001", ["datasetRef", "id"]),
        ("create_kpi", "kpis", "k", ["formula", "id", "name"]),
        ("delete_kpi", "kpis", "k", []),
        ("upload_traces", "local-datasets", upload["id"], []),
        ("start_run", "benchmark-runs", run["id"], ["agentId", "benchmarkId"]),
        ("cancel_run", "benchmark-runs", run["id"], []),
        ("retry_run", "benchmark-runs", again["id"], []),
    ]
    assert "sk-lf" not in service.send("GET", "/audit").text


def test_audit_log__entry_contains_key_request_and_path(service: Service) -> None:
    service.post("/agents", {"id": "a", "name": "A"}, **{"X-Request-Id": "run-7"})
    (line,) = lines(service)
    assert line.pop("at").endswith("Z")
    assert line.pop("actorName")
    assert line == {
        "seq": line["seq"],
        "actorType": "key",
        "actorId": key_id(service),
        "action": "create_agent",
        "resourceType": "agents",
        "resourceId": "a",
        "outcome": "done",
        "fields": ["id", "name"],
        "method": "POST",
        "path": "/api/v1/agents",
        "requestId": "run-7",
    }


def test_audit_log__reads_refusals_and_replays_have_no_entry(service: Service) -> None:
    once = {"Idempotency-Key": "k"}
    service.post("/agents", {"id": "a", "name": "A"}, **once)
    service.post("/agents", {"id": "a", "name": "A"}, **once)
    service.get("/agents")
    service.expect_problem(409, "POST", "/agents", {"id": "a", "name": "again"})
    service.expect_problem(422, "PATCH", "/agents/a", {"name": ""})
    service.expect_problem(412, "DELETE", "/agents/a", headers={"If-Match": '"9"'})
    assert [line["action"] for line in lines(service)] == ["create_agent"]


def test_audit_log__insufficient_role_is_recorded_as_refused(service: Service) -> None:
    reader = service.post("/keys", {"name": "reader", "role": "read"})
    headers = {"Authorization": f"Bearer {reader['token']}"}
    service.expect_problem(403, "DELETE", "/agents/a", headers=headers)
    service.expect_problem(403, "GET", "/audit", headers=headers)
    (line,) = lines(service, outcome="refused")
    assert (line["actorId"], line["action"], line["resourceId"]) == (
        reader["id"],
        "delete_agent",
        "a",
    )


def test_audit_log__list_is_filtered_and_paged(service: Service) -> None:
    for number in range(5):
        service.create_agent(f"a-{number}")
    service.patch("/agents/a-3", {"name": "x"})
    start = lines(service)[2]["at"]
    assert [line["resourceId"] for line in lines(service, limit="2", action="create_agent")] == [
        f"a-{number}" for number in range(5)
    ]
    assert len(lines(service, resourceType="agents", resourceId="a-3")) == 2
    assert len(lines(service, actorId=key_id(service))) == 6
    assert lines(service, actorId="nobody") == []
    assert len(lines(service, **{"from": start})) == 4
    assert len(lines(service, to=start)) == 2
    service.expect_problem(422, "GET", "/audit?outcome=maybe")


def test_record_action__other_actors_carry_the_request_id(service: Service) -> None:
    with begun(service) as session, bind_correlation({"request_id": "r-1"}):
        schedule = AuditActor(type="schedule", id="nightly")
        record_action(session, schedule, "start_run", AuditResource("benchmark-runs", "run-1"))
    (line,) = lines(service)
    assert (line["actorType"], line["actorId"], line["requestId"]) == (
        "schedule",
        "nightly",
        "r-1",
    )
    assert (line["method"], line["path"], line["fields"]) == (None, None, [])


def test_audit_log__is_append_only_even_for_its_owner(service: Service) -> None:
    service.create_agent()
    for change in (
        "UPDATE audit_log SET action = 'x'",
        "DELETE FROM audit_log",
        "TRUNCATE audit_log",
    ):
        with pytest.raises(DBAPIError, match="append-only"), begun(service) as session:
            session.execute(text(change))
    assert len(lines(service)) == 1


def insert_entry(session: Session, resource_id: str, *, age_days: int) -> None:
    session.execute(
        text(
            "INSERT INTO audit_log (at, actor_type, actor_id, action, resource_type, resource_id,"
            " outcome, fields) VALUES (now() - make_interval(days => :age), 'key', 'k',"
            " 'create_agent', 'agents', :id, 'done', '{}')"
        ),
        {"age": age_days, "id": resource_id},
    )


def test_audit_log__only_entries_that_are_no_longer_kept_are_deleted(service: Service) -> None:
    """The trigger in the database and the default agree."""
    with begun(service) as session:
        insert_entry(session, "young", age_days=KEEP_AUDIT_ENTRIES.days - 1)
        insert_entry(session, "old", age_days=KEEP_AUDIT_ENTRIES.days + 1)
    with begun(service) as session:
        assert delete_old_entries(session, utc_now()) == 1
    assert [line["resourceId"] for line in lines(service)] == ["young"]
    # Not even the function deletes younger ones, for example when a clock is wrong.
    with pytest.raises(DBAPIError, match="append-only"), begun(service) as session:
        delete_old_entries(session, utc_now() + timedelta(days=30))


def test_audit_log__is_purged_by_a_role_that_may_only_append(
    service: Service, superuser_url: str
) -> None:
    with begun(service) as session:
        insert_entry(session, "old", age_days=401)
    database = service.resources.db.engine.url.database
    with psycopg.connect(superuser_url, dbname=database) as connection:
        connection.execute("CREATE ROLE audit_writer")
        connection.execute("GRANT SELECT, INSERT ON audit_log TO audit_writer")
        connection.execute("SET LOCAL ROLE audit_writer")
        cutoff = utc_now() - timedelta(days=400)
        row = connection.execute("SELECT delete_old_audit_entries(%s, 10)", [cutoff]).fetchone()
        # Roles belong to the whole server: the rollback takes this one back.
        connection.rollback()
    assert row == (1,)
