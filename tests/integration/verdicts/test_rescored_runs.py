"""Traces that are judged once more: their source is gone, and then they are."""

from datetime import timedelta

from app.runs.retention import purge_runs_before
from tests.integration.verdicts.conftest import Night, traces
from tests.support.service import Service


def test_a_run_is_rescored_without_its_source_until_its_traces_are_purged(
    service: Service, night: Night
) -> None:
    first = night("monday", traces(range(5)))
    run = night("tuesday", traces(range(20)))
    for dataset in service.listed("/local-datasets"):
        service.delete(f"/local-datasets/{dataset['id']}")
    again = service.post(f"/benchmark-runs/{run['id']}/rescore")
    refused = service.refused(409, "POST", f"/benchmark-runs/{again['id']}/rescore")
    assert "only COMPLETED runs" in refused["detail"]
    service.work()
    found = service.get(f"/benchmark-runs/{again['id']}")
    # It stands where the first judgement of the same traces stands, and is no baseline of itself.
    assert (found["status"], found["verdict"]["verdict"]) == ("COMPLETED", "REGRESSED")
    assert found["verdict"]["baseline"]["runIds"] == [first["id"]]
    assert found["fingerprint"] == run["fingerprint"] == first["fingerprint"]
    assert service.get(f"/benchmark-runs/{run['id']}")["verdict"] == run["verdict"]

    now = service.resources.clock()
    with service.resources.db.begin() as session:
        purge_runs_before(session, now + timedelta(days=1), now)
    service.work()
    for request in (("POST", f"/{run['id']}/rescore"), ("POST", f"/{again['id']}/rescore")):
        problem = service.refused(410, request[0], f"/benchmark-runs{request[1]}")
        assert problem["type"].endswith("run-purged")
    asked = {"baseline": first["id"], "candidate": run["id"]}
    service.refused(410, "GET", "/benchmark-runs/compare", params=asked)
    # What it said stays; it is the baseline of nobody any more.
    assert service.get(f"/benchmark-runs/{run['id']}")["verdict"] == run["verdict"]
    later = night("wednesday", traces(range(5)))
    assert later["verdict"]["reason"].startswith("first run")
    assert later["fingerprint"] == first["fingerprint"]
