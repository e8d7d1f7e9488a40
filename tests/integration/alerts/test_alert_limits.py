"""Limits of rules, incidents and alerts: what one agent, value or message may have of them."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

import pytest

from mosaico.alerts import incident_queries, queries, rule_records, rule_service
from mosaico.alerts.models import Incident
from mosaico.alerts.rule_records import RuleRecord, read_records
from mosaico.core import dependents
from mosaico.run_store.run_history import list_comparable_runs, list_valid_seqs
from tests.integration.alerts.conftest import GOOD, RuleMaker, holds, open_incident
from tests.support.page_reads import read_page
from tests.support.run_histories import RunHistoryMaker
from tests.support.service import JSON, Service
from tests.support.stored import DatabaseReader

ALERT: Final = """
    INSERT INTO alert_events
        (id, dedup_key, state, rule_id, name, severity, benchmark_id, agent_id, explanation, details, verdict, created_at)
    SELECT concat(rule, state, day), concat(rule, state, day), state, rule, 'x', 'INFO',
        'bench-001', 'agent-001', 'x', '{}', CASE WHEN day = 1 THEN 'noise' ELSE 'true' END, now() - day * interval '1 day'
    FROM unnest(ARRAY['rule-1', 'rule-2']) AS rule, unnest(ARRAY['FIRING', 'RESOLVED']) AS state,
        unnest(ARRAY[1, 2, 3, 100]) AS day WHERE rule = 'rule-1' OR day > 2
"""
INCIDENT: Final = """
    INSERT INTO incidents
        (id, name, severity, condition, benchmark_id, agent_id, kpi, metric, value_name, state, resolution, started_seq,
         opened_seq, end_seq, run_seqs, started_run_id, opened_run_id, started_at, opened_at, explanation, verdict)
    SELECT kpi || first, 'x', 'INFO', condition, 'b', 'a', kpi, metric, 'x', 'RESOLVED', resolution, first, first, "end",
        '{}', 'x', 'x', now(), now(), 'x', verdict
    FROM (VALUES
        ('k', NULL, 'REGRESSED', 10, 12, 'RECOVERED', NULL),
        ('k', NULL, 'REGRESSED', 11, 15, 'RECOVERED', 'true'),
        ('k', NULL, 'ANOMALY_DETECTED', 20, 25, 'RECOVERED', NULL),
        ('k', NULL, 'PERCENTAGE_DROP', 40, NULL, NULL, NULL),
        ('k', NULL, 'REGRESSED', 30, 35, 'NOISE', 'noise'),
        ('k', NULL, 'LESS_THAN', 36, 38, 'RECOVERED', NULL),
        ('other', NULL, 'REGRESSED', 26, 28, 'RECOVERED', NULL)
    ) AS incident (kpi, metric, condition, first, "end", resolution, verdict)
"""
START: Final = datetime(2026, 1, 1, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)


def rule(number: int, **fields: object) -> JSON:
    watched = {"metric": "EXACT_MATCH", "condition": "LESS_THAN", "threshold": 0.5}
    return {
        "id": f"limit-{number}",
        "name": f"rule {number}",
        "benchmarkId": "bench-001",
        **watched,
        **fields,
    }


def test_rules__number_is_limited_for_each_agent_and_for_all_of_them(
    benchmark_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule_service, "MAX_RULES", 2)
    benchmark_service.create_agent("agent-002")
    for number, agent_id in enumerate(["agent-001", "agent-001", None, None, "agent-002"]):
        benchmark_service.post("/alert-configs", rule(number, agentId=agent_id))
    for agent_id in ("agent-001", None):
        body = rule(9, agentId=agent_id)
        problem = benchmark_service.expect_problem(409, "POST", "/alert-configs", body)
        assert problem["type"] == "/problems/too-many-alert-rules"
        body = {"agentId": agent_id}
        problem = benchmark_service.expect_problem(409, "PATCH", "/alert-configs/limit-4", body)
        assert problem["type"] == "/problems/too-many-alert-rules"
    # A rule counts where it is, whether it is enabled or not.
    benchmark_service.patch("/alert-configs/limit-0", {"enabled": False, "agentId": "agent-001"})
    benchmark_service.patch("/alert-configs/limit-0", {"agentId": "agent-002"})
    benchmark_service.patch("/alert-configs/limit-2", {"agentId": "agent-001"})
    benchmark_service.expect_problem(409, "POST", "/alert-configs", rule(9, agentId="agent-002"))
    benchmark_service.post("/alert-configs", rule(9))


def test_rules__of_concurrent_requests_as_many_succeed_as_fit(
    benchmark_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule_service, "MAX_RULES", 3)
    post = partial(benchmark_service.send, "POST", "/alert-configs")
    with ThreadPoolExecutor(8) as threads:
        statuses = [answer.status_code for answer in threads.map(post, map(rule, range(8)))]
    assert sorted(statuses) == [201] * 3 + [409] * 5


def test_kpi__in_use_names_some_rules(
    benchmark_service: Service, create_rule: RuleMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_rule(id="rule-2")
    create_rule(id="rule-1")
    create_rule(id="rule-3", condition="REGRESSED", threshold=None)
    path = "/benchmarks/bench-001/kpis/k-1"
    problem = benchmark_service.expect_problem(409, "DELETE", path)
    assert [problem["detail"].count(f"(rule-{number})") for number in (1, 2, 3)] == [1, 1, 1]
    monkeypatch.setattr(dependents, "MAX_NAMED", 1)
    problem = benchmark_service.expect_problem(409, "DELETE", path)
    assert problem["detail"].count("(rule-") == 1
    assert "2 more" in problem["detail"]
    monkeypatch.setattr(queries, "MAX_USERS", 1)
    # Found among all rules, although fewer than `MAX_USERS` need the direction.
    problem = benchmark_service.expect_problem(409, "PATCH", path, {"direction": "NEITHER"})
    assert "(rule-3)" in problem["detail"]


def test_record__counts_the_newest_alerts(
    benchmark_service: Service, create_rule: RuleMaker, rows: DatabaseReader,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    create_rule()
    rows.execute(ALERT)
    now = benchmark_service.resources.clock()
    with benchmark_service.resources.db.read() as session:
        for rules_per_statement in (1, 20):
            monkeypatch.setattr(rule_records, "_RULES_PER_STATEMENT", rules_per_statement)
            assert read_records(session, ["rule-1", "rule-2", "rule-3"], now) == {
                "rule-1": RuleRecord(fired=3, true=2, noise=1),
                "rule-2": RuleRecord(fired=1, true=1, noise=0),
            }
        monkeypatch.setattr(rule_records, "MAX_FIRED", 2)
        record = read_records(session, ["rule-1"], now)["rule-1"]
    assert record == RuleRecord(fired=2, true=1, noise=1)
    assert record.text == "fired at least 2× in 90 days: 1 real, 1 false alarm"
    assert benchmark_service.get("/alert-configs/rule-1")["record"]["fired"] == 2


def test_incident__keeps_its_latest_runs(
    benchmark_service: Service, create_rule: RuleMaker, complete: RunHistoryMaker,
    rows: DatabaseReader, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(Incident, "MAX_RUNS", 2)
    create_rule(forRuns=3)
    complete(*GOOD, 0.5, 0.5, 0.5)
    assert rows.all("SELECT run_seqs, started_seq FROM incidents") == [([7, 8], 6)]
    complete(0.5)
    assert rows.all("SELECT run_seqs, started_seq FROM incidents") == [([8, 9], 6)]
    incident = open_incident(benchmark_service)
    assert (incident["runs"], incident["startedRunId"]) == (2, "run-6")
    page = read_page(benchmark_service, f"/incidents/{incident['id']}")
    assert "at least 2 runs so far" in page
    benchmark_service.post(f"/incidents/{incident['id']}/noise")
    assert holds(rows)[-2:] == [None, None]


@pytest.mark.parametrize(
    ("excluded", "night", "expected"),
    [
        ([], 8, [4, 5, 7, 8]),
        ([(5, 7)], 8, [2, 4, 7, 8]),
        ([(0, 5), (8, None)], 8, [5, 7]),
        ([(4, 6), (1, 2), (5, 7)], 7, [2, 7]),
        ([(0, 20)], 8, []),
        ([(2, None), (0, 1)], 8, [1]),
        ([(5, 9)], 4, [1, 2, 4]),
    ],
)
def test_comparable_runs__are_the_last_ones_outside_of_the_excluded_spans(
    benchmark_service: Service, complete: RunHistoryMaker, rows: DatabaseReader,
    excluded: list[tuple[int, int | None]], night: int, expected: list[int],
) -> None:  # fmt: skip
    complete(*GOOD, 0.9, 0.9, 0.9, 0.9)
    rows.execute("UPDATE benchmark_runs SET has_new_data = false WHERE seq = 3")
    rows.execute("UPDATE benchmark_runs SET fingerprint = CASE WHEN seq <> 6 THEN 'f' END")
    list_runs = partial(
        list_comparable_runs,
        benchmark_id="bench-001", agent_id="agent-001", besides=9, night=night,
    )  # fmt: skip
    with benchmark_service.resources.db.read() as session:
        runs = list_runs(session, fingerprint="f", limit=4, excluded=excluded)
        assert [run.seq for run in runs] == expected
        runs = list_runs(session, fingerprint=None, limit=4)
        assert [run.seq for run in runs] == [6] * (night > 5)


@pytest.mark.parametrize(("limit", "expected"), [(3, [2, 4, 5]), (2, [4, 5])])
def test_valid_runs__of_a_range_are_the_last_ones(
    benchmark_service: Service, complete: RunHistoryMaker, rows: DatabaseReader,
    limit: int, expected: list[int],
) -> None:  # fmt: skip
    complete(*GOOD, 0.9)
    rows.execute("UPDATE benchmark_runs SET has_new_data = false WHERE seq = 3")
    with benchmark_service.resources.db.read() as session:
        seqs = list_valid_seqs(session, "bench-001", "agent-001", 2, 6, limit=limit)
    assert seqs == expected


def test_incidents_of_a_kpi__are_the_newest_that_overlap_a_period(
    benchmark_service: Service, rows: DatabaseReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.execute(INCIDENT)
    # Each lasts an hour, and the one of the run 11 until now.
    rows.execute(
        "UPDATE incidents SET started_at = timestamptz '2026-01-01' + started_seq * interval '1 hour',"
        " resolved_at = CASE WHEN started_seq <> 11 THEN timestamptz '2026-01-01' + (started_seq + 1) * interval '1 hour' END"
    )

    def list_starts(first: int, end: int | None, limit: int = 20) -> list[int]:
        period = (START + first * HOUR, None if end is None else START + end * HOUR)
        with benchmark_service.resources.db.read() as session:
            incidents = incident_queries.list_incidents_of_kpi(
                session, "b", "a", "k", period, limit
            )
        return [incident.started_seq for incident in incidents]

    # Without the noise of the run 30.
    assert list_starts(0, None) == [40, 36, 20, 11, 10]
    assert list_starts(0, None, limit=2) == [40, 36]
    assert list_starts(20, 36) == [20, 11]
    monkeypatch.setattr(incident_queries, "MAX_NEWEST", 2)
    assert list_starts(20, 36) == [20]
