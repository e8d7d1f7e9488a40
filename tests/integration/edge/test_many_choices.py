"""A choice of many agents is an input with suggestions, which reaches every agent by its ID."""

import re
from datetime import UTC, datetime
from typing import Final

import pytest

from mosaico.agents.models import Agent
from mosaico.kpis.models import KpiHistory
from mosaico.run_store.models import BenchmarkRun
from tests.support.page_data import write_month
from tests.support.page_reads import read_page
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
