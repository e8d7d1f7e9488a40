"""Rescored runs without their source, and without their traces."""

from datetime import timedelta

from mosaico.runs.retention import purge_runs_before
from tests.integration.verdicts.conftest import CompleteRun, traces
from tests.support.service import Service


def test_rescore__works_without_the_source_until_traces_are_purged(
    service: Service, complete_run: CompleteRun
) -> None:
    first = complete_run("monday", traces(range(5)))
    run = complete_run("tuesday", traces(range(20)))
    for dataset in service.list_items("/local-datasets"):
        service.delete(f"/local-datasets/{dataset['id']}")
    again = service.post(f"/benchmark-runs/{run['id']}/rescore")
    refused = service.expect_problem(409, "POST", f"/benchmark-runs/{again['id']}/rescore")
    assert "only COMPLETED runs" in refused["detail"]
    service.work()
    rescored = service.get(f"/benchmark-runs/{again['id']}")
    # It stands where the first judgement of the same traces stands, and is no baseline of itself.
    assert (rescored["status"], rescored["verdict"]["verdict"]) == ("COMPLETED", "REGRESSED")
    assert rescored["verdict"]["baseline"]["runIds"] == [first["id"]]
    assert rescored["fingerprint"] == run["fingerprint"] == first["fingerprint"]
    assert service.get(f"/benchmark-runs/{run['id']}")["verdict"] == run["verdict"]

    now = service.resources.clock()
    with service.resources.db.begin() as session:
        purge_runs_before(session, now + timedelta(days=1), now)
    service.work()
    for request in (("POST", f"/{run['id']}/rescore"), ("POST", f"/{again['id']}/rescore")):
        problem = service.expect_problem(410, request[0], f"/benchmark-runs{request[1]}")
        assert problem["type"].endswith("run-purged")
    parameters = {"baseline": first["id"], "candidate": run["id"]}
    service.expect_problem(410, "GET", "/benchmark-runs/compare", params=parameters)
    # What it said stays; it is the baseline of nobody any more.
    assert service.get(f"/benchmark-runs/{run['id']}")["verdict"] == run["verdict"]
    later = complete_run("wednesday", traces(range(5)))
    assert later["verdict"]["reason"].startswith("first run")
    assert later["fingerprint"] == first["fingerprint"]
