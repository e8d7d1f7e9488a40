"""A choice of many agents is an input with suggestions, which reaches every agent by its ID."""

import re
from datetime import UTC, datetime
from typing import Final

import pytest
from sqlalchemy import text

from mosaico.access.models import ApiKey
from mosaico.agents.models import Agent
from mosaico.kpis.models import KpiHistory
from mosaico.run_store.models import BenchmarkRun
from tests.support.page_data import write_month
from tests.support.page_reads import HTML, read_page
from tests.support.service import Service

TREND: Final = "/benchmarks/support/kpis/support-pass"


@pytest.fixture(scope="module")
def crowd(module_service: Service) -> Service:
    """250 more agents, of which 20 have a value of a KPI. No test changes them."""
    with module_service.resources.db.begin() as session:
        write_month(session)
        session.add_all(Agent(id=f"agent-{n:03d}", name=f"Robin {n}") for n in range(250))
        session.flush()
        value = session.query(KpiHistory).filter_by(run_id="run-billing-support-0", gate=True).one()
        columns = {
            column.name: getattr(value, column.name)
            for column in KpiHistory.__table__.columns
            if column.computed is None and column.name != "id"
        }
        for n in range(20):
            run = BenchmarkRun(
                id=f"of-{n}", benchmark_id="support", agent_id=f"agent-{n:03d}", status="COMPLETED",
                triggered_by="MANUAL", validity="VALID", completed_at=datetime.now(UTC),
            )  # fmt: skip
            session.add(run)
            session.flush()
            own = {"run_id": run.id, "run_seq": run.seq, "agent_id": run.agent_id}
            session.add(KpiHistory(**{**columns, **own}))
    return module_service


@pytest.mark.parametrize(
    "path", ["/runs", "/inbox", "/alerts/rule-1", "/new/schedule", "/new/silence", "/benchmarks/support"]
)  # fmt: skip
def test_page__of_many_agents_suggests_them(path: str, crowd: Service) -> None:
    page = read_page(crowd, path)
    lists = re.findall(
        r'<input [^>]*name="(?:agent|agentId|matchers.agentId)"[^>]* list="([^"]+)"', page
    )
    assert lists
    for name in lists:
        options = re.findall(rf'<datalist id="{name}">(.*?)</datalist>', page, re.DOTALL)
        assert options[0].count("<option") == 200
    assert not re.search(r'<select [^>]*name="(?:agent|agentId|matchers.agentId)"', page)


def test_silence_form__of_many_rules_and_audit_log_of_many_keys_say_how_many(
    crowd: Service,
) -> None:
    with crowd.resources.db.begin() as session:
        session.execute(
            text(
                "INSERT INTO alert_rules SELECT (jsonb_populate_record(rule, jsonb_build_object('id', 'rule-n' || n))).*"
                " FROM alert_rules AS rule, generate_series(1, 210) AS n WHERE id = 'rule-1'"
            )
        )
        session.add_all(
            ApiKey(
                id=f"key-{n}", name=f"CI {n}", role="run", digest=f"key-{n}".encode(), created_at=datetime.now(UTC),
            )
            for n in range(210)
        )  # fmt: skip
    assert re.search(r"200 of 21\d alert rules are suggested", read_page(crowd, "/new/silence"))
    page = read_page(crowd, "/audit?actor=key-3")
    assert re.search(r"200 of 21\d API keys are suggested", page)
    assert 'name="actor" value="key-3" list="actor-names"' in page


def test_benchmark_form__of_many_agents_takes_ids_and_keeps_those_that_it_does_not_list(
    crowd: Service,
) -> None:
    crowd.patch("/benchmarks/support", {"evaluates": ["agent-000"]})
    page = read_page(crowd, "/benchmarks/support/edit")
    [typed] = re.findall(r'<textarea id="evaluates"[^>]*>([^<]*)</textarea>', page)
    assert typed.split() == ["agent-000"]
    assert "201 of 253 agents" in page
    [revision] = re.findall(r'name="revision" value="(\d+)"', page)
    fields = {
        "form": "1", "revision": revision, "metrics": "EXACT_MATCH", "evaluates": "agent-000\nagent-249",
        "minCoverage": "0.9", "maxErrorShare": "0.05",
    }  # fmt: skip
    response = crowd.client.post(
        "/benchmarks/support", data=fields, headers=HTML, follow_redirects=False
    )
    assert response.status_code == 303, response.text
    assert crowd.get("/benchmarks/support")["evaluates"] == ["agent-000", "agent-249"]
    crowd.patch("/benchmarks/support", {"evaluates": []})


def test_benchmark__its_own_agents_are_offered_however_old_they_are(crowd: Service) -> None:
    """The first of 250 agents, where the newest 200 are suggested."""
    crowd.patch("/benchmarks/support", {"evaluates": ["agent-000"]})
    page = read_page(crowd, "/benchmarks/support")
    assert '<option value="agent-000">Robin 0</option>' in page
    crowd.patch("/benchmarks/support", {"evaluates": []})


def test_runs__agent_that_is_not_suggested_is_found_by_its_id(crowd: Service) -> None:
    page = read_page(crowd, "/runs?agent=agent-003")
    assert 'name="agent" value="agent-003"' in page
    assert "/runs/of-3" in page
    assert "/runs/run-billing" not in page


def test_trend__few_agents_are_tabs_and_the_others_are_suggested(crowd: Service) -> None:
    page = read_page(crowd, TREND)
    [tabs] = re.findall(r'<nav class="tabs" aria-label="Agent">(.*?)</nav>', page, re.DOTALL)
    assert tabs.count("<a ") == 8
    # The 20 agents, and two of the month.
    assert "8 of 22 are above" in page
    assert '<option value="billing">Billing bot</option>' in page
    agent_page = read_page(crowd, f"{TREND}?agent=billing")
    [tabs] = re.findall(r'<nav class="tabs" aria-label="Agent">(.*?)</nav>', agent_page, re.DOTALL)
    assert re.search(r'aria-current="page">Billing bot', tabs)
