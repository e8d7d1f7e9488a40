"""Uploads belong to an agent: a run reads the newest upload of its own agent, or says what is ambiguous."""

import pytest

from tests.support.service import JSON, Service, pair


@pytest.fixture
def two_agents(service: Service) -> Service:
    """Two agents, and a benchmark without a run name that evaluates any agent."""
    service.create_agent("agent-001")
    service.create_agent("agent-002")
    service.create_benchmark(metrics=["EXACT_MATCH"])
    return service


def mean_of(service: Service, run: JSON) -> float:
    [metric] = service.list_items(f"/benchmark-runs/{run['id']}/metrics")
    mean: float = metric["mean"]
    return mean


def test_run__reads_newest_upload_of_its_own_agent(two_agents: Service) -> None:
    two_agents.upload([pair(1, output="x")], run_name="old", agentId="agent-001")
    upload = two_agents.upload([pair(1)], run_name="new", agentId="agent-001")
    assert upload["agentId"] == "agent-001"
    two_agents.upload([pair(1, output="y")], run_name="new", agentId="agent-002")
    two_agents.upload([pair(1, output="z")], run_name="unowned")
    run = two_agents.complete_run(agentId="agent-001")
    assert (run["status"], run["runName"], mean_of(two_agents, run)) == ("COMPLETED", "new", 1.0)
    run = two_agents.complete_run(agentId="agent-002")
    assert (run["status"], run["runName"], mean_of(two_agents, run)) == ("COMPLETED", "new", 0.0)


def test_run__several_uploads_without_agent_are_ambiguous_for_two_listed_agents(
    two_agents: Service,
) -> None:
    two_agents.patch("/benchmarks/bench-001", {"evaluates": ["agent-001", "agent-002"]})
    two_agents.upload([pair(1)], run_name="of-one")
    two_agents.upload([pair(1, output="x")], run_name="of-two")
    run = two_agents.complete_run()
    assert (run["status"], run["errorCode"]) == ("FAILED", "AMBIGUOUS_UPLOAD")
    assert "for the agent 'agent-001' (`--agent`" in run["errorMessage"]
    # Each of the three remedies.
    assert two_agents.complete_run(runName="of-one")["status"] == "COMPLETED"
    two_agents.upload([pair(1)], run_name="of-one", agentId="agent-001")
    assert two_agents.complete_run()["runName"] == "of-one"
    two_agents.patch("/benchmarks/bench-001", {"evaluates": ["agent-002"]})
    assert two_agents.complete_run(agentId="agent-002")["runName"] == "of-two"


def test_run__unlisted_agents_change_nothing_of_what_it_reads(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["EXACT_MATCH"])
    service.upload([pair(1)], run_name="run-1")
    service.upload([pair(1)], run_name="run-2")
    assert service.complete_run()["runName"] == "run-2"
    service.create_agent("unrelated")
    service.upload([pair(1)], run_name="run-3")
    assert service.complete_run()["runName"] == "run-3"


@pytest.mark.parametrize("archived", [False, True])
def test_run__state_of_a_listed_agent_does_not_change_what_it_reads(
    two_agents: Service,
    archived: bool,
) -> None:
    two_agents.patch("/benchmarks/bench-001", {"evaluates": ["agent-001", "agent-002"]})
    two_agents.patch("/agents/agent-002", {"archived": archived})
    for number in (1, 2):
        two_agents.upload([pair(1)], run_name=f"run-{number}")
    assert two_agents.complete_run()["errorCode"] == "AMBIGUOUS_UPLOAD"


@pytest.mark.parametrize("run_name", [None, "theirs"])
def test_run__upload_of_another_agent_is_not_read(
    two_agents: Service, run_name: str | None
) -> None:
    two_agents.upload([pair(1)], run_name="theirs", agentId="agent-002")
    run = two_agents.complete_run(runName=run_name)
    assert (run["status"], run["errorCode"]) == ("FAILED", "RUN_NOT_FOUND")
    assert "theirs (agent agent-002)" in run["errorMessage"]


def test_upload__same_run_of_two_agents_and_of_none_are_three_uploads(two_agents: Service) -> None:
    for agent_id in ("agent-001", "agent-002"):
        two_agents.upload([pair(1)], agentId=agent_id)
    two_agents.upload([pair(1)])
    path = "/local-datasets?name=support&runName=run-1"
    for owner in ("", "&agentId=agent-002"):
        body = {
            "content": b'{"traceId": "t-9"}',
            "headers": {"Content-Type": "application/x-ndjson"},
        }
        two_agents.expect_problem(409, "POST", f"{path}{owner}", **body)
    two_agents.upload([pair(2), pair(3)], agentId="agent-002", replace="true")
    uploads = two_agents.list_items("/local-datasets")
    assert {upload["agentId"]: upload["traceCount"] for upload in uploads} == {
        "agent-001": 1,
        "agent-002": 2,
        None: 1,
    }
    [own] = two_agents.list_items("/local-datasets", agentId="agent-001")
    assert own["agentId"] == "agent-001"


def test_dataset_updated__upload_starts_a_run_of_its_agent_only(two_agents: Service) -> None:
    agents = ["agent-001", "agent-002"]
    triggers = {"datasetUpdated": True}
    two_agents.patch("/benchmarks/bench-001", {"evaluates": agents, "triggers": triggers})
    two_agents.upload([pair(1)], agentId="agent-002")
    two_agents.work()
    [event] = two_agents.list_items("/trigger-events")
    assert event["details"] == {"runName": "run-1", "agentId": "agent-002"}
