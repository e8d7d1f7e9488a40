"""A regressed run is no baseline until somebody accepts it; nor is another run over its traces."""

from tests.integration.verdicts.conftest import CompleteRun, traces
from tests.support.service import JSON, Service, run_mosaico

BASELINE = "/benchmarks/bench-001/baseline"
GOOD, BAD, SOME = range(5), range(20), range(12)


def baseline_ids(run: JSON) -> list[str]:
    return list(run["verdict"]["baseline"]["runIds"])


def accept(service: Service, run: JSON, **body: str) -> JSON:
    return service.post(f"/benchmark-runs/{run['id']}/accept", body or None)


def test_regressed_run__is_no_baseline_until_it_is_accepted(
    service: Service, complete_run: CompleteRun
) -> None:
    good = complete_run("monday", traces(GOOD))
    bad = complete_run("tuesday", traces(BAD))
    again_bad = complete_run("wednesday", traces(BAD))
    assert (good["baselineHold"], bad["baselineHold"]) == (None, "REGRESSED")
    # The same bad level with other traces is compared with the good level, too.
    assert (again_bad["verdict"]["verdict"], baseline_ids(again_bad)) == ("REGRESSED", [good["id"]])
    accepted = accept(service, again_bad, note="smaller model")
    assert (accepted["baselineHold"], accepted["acceptanceNote"]) == (None, "smaller model")
    assert accepted["acceptedAt"] is not None
    assert accepted["acceptedBy"] is not None
    last = complete_run("thursday", traces(BAD))
    assert baseline_ids(last) == [again_bad["id"]]
    assert last["verdict"]["verdict"] != "REGRESSED"
    # Tuesday itself was not accepted and stays on hold.
    assert service.get(f"/benchmark-runs/{bad['id']}")["baselineHold"] == "REGRESSED"


def test_second_run_over_a_source_run__has_the_baseline_of_the_first(
    service: Service, complete_run: CompleteRun
) -> None:
    service.patch("/benchmarks/bench-001", {"baseline": {"mode": "MEAN_OF_LAST", "runs": 5}})
    good = complete_run("monday", traces(GOOD))
    # Too small a drop for a verdict: only the identity of the source run protects against a retry.
    first = complete_run("tuesday", traces(range(8)))
    assert first["verdict"]["verdict"] == "INCONCLUSIVE"
    second = service.complete_run(runName="tuesday")
    rescored = service.post(f"/benchmark-runs/{second['id']}/rescore")
    service.work()
    third = service.get(f"/benchmark-runs/{rescored['id']}")
    assert (first["sameSourceAs"], second["sameSourceAs"]) == (None, first["id"])
    # A rescored run names its origin instead.
    assert (third["sameSourceAs"], third["rescoreOf"]) == (None, second["id"])
    for run in (second, third):
        assert baseline_ids(run) == [good["id"]]
        assert run["verdict"]["verdict"] == first["verdict"]["verdict"]
    later = complete_run("wednesday", traces(range(8)))
    # One entry for the source run, which is its newest judgement.
    assert baseline_ids(later) == [third["id"], good["id"]]


def test_same_upload_again__is_the_same_source_run(
    service: Service, complete_run: CompleteRun
) -> None:
    good = complete_run("monday", traces(GOOD))
    complete_run("tuesday", traces(range(8)))
    service.upload(traces(range(8)), run_name="tuesday", replace="true")
    assert baseline_ids(service.complete_run(runName="tuesday")) == [good["id"]]
    # Other traces under the same name are new evidence.
    service.upload(traces(range(9)), run_name="tuesday", replace="true")
    assert baseline_ids(service.complete_run(runName="tuesday")) != [good["id"]]


def test_second_run_over_the_first_source_run__names_no_first_run(
    service: Service, complete_run: CompleteRun
) -> None:
    first = complete_run("monday", traces(GOOD))
    assert first["verdict"]["explanation"].startswith("First run: ")
    second = service.complete_run(runName="monday")
    assert second["verdict"]["explanation"].endswith(
        "No earlier valid run of this agent evaluates another source run."
    )
    assert second["verdict"]["explanation"].startswith("The same answers as on ")


def test_pinned_run__second_judgement_is_not_compared_with_itself(
    service: Service, complete_run: CompleteRun
) -> None:
    good = complete_run("monday", traces(GOOD))
    pinned = complete_run("tuesday", traces(range(8)))
    service.put(BASELINE, {"runId": pinned["id"]})
    assert baseline_ids(service.complete_run(runName="tuesday")) == [good["id"]]


def test_acceptance__holds_for_all_runs_over_the_source_run(
    service: Service, complete_run: CompleteRun
) -> None:
    complete_run("monday", traces(GOOD))
    bad = complete_run("tuesday", traces(BAD))
    second = service.complete_run(runName="tuesday")
    assert second["baselineHold"] == "REGRESSED"
    accepted = accept(service, second, note="intended")
    sibling = service.get(f"/benchmark-runs/{bad['id']}")
    assert (sibling["baselineHold"], sibling["acceptanceNote"]) == (None, "intended")
    third = service.complete_run(runName="tuesday")
    assert third["verdict"]["verdict"] == "REGRESSED"
    assert (third["baselineHold"], third["acceptedAt"]) == (None, accepted["acceptedAt"])


def test_acceptance__by_a_command_is_idempotent_keeps_its_note_and_allows_to_pin(
    service: Service, complete_run: CompleteRun
) -> None:
    complete_run("monday", traces(GOOD))
    bad = complete_run("tuesday", traces(BAD))
    problem = service.expect_problem(409, "PUT", BASELINE, {"runId": bad["id"]})
    assert f"mosaico runs accept {bad['id']}" in problem["detail"]
    words = ["runs", "accept", bad["id"], "--note", "smaller model", "--yes"]
    accepted = run_mosaico(service, *words)
    assert accepted.exit_code == 0, accepted.output
    assert f"the level of run {bad['id']} is accepted" in accepted.stderr
    first = service.get(f"/benchmark-runs/{bad['id']}")
    assert accept(service, bad, note="another reason") == first
    assert first["acceptanceNote"] == "smaller model"
    [entry] = [
        entry
        for entry in service.list_items("/audit")
        if entry["action"] == "accept_run" and entry["resourceId"] == bad["id"]
    ][:1]
    assert entry["actorId"] == first["acceptedBy"]
    assert "smaller model" in run_mosaico(service, "runs", "show", bad["id"]).stdout
    assert service.put(BASELINE, {"runId": bad["id"]})["runId"] == bad["id"]


def test_accepted_level__baselines_do_not_reach_behind_it(
    service: Service, complete_run: CompleteRun
) -> None:
    service.patch("/benchmarks/bench-001", {"baseline": {"mode": "MEAN_OF_LAST", "runs": 5}})
    complete_run("monday", traces(GOOD))
    bad = complete_run("tuesday", traces(BAD))
    accept(service, bad)
    next_run = complete_run("wednesday", traces(BAD))
    assert baseline_ids(next_run) == [bad["id"]]
    assert baseline_ids(complete_run("thursday", traces(BAD))) == [next_run["id"], bad["id"]]


def test_accept__refuses_runs_that_are_not_held_back(
    service: Service, complete_run: CompleteRun
) -> None:
    good = complete_run("monday", traces(GOOD))
    invalid = complete_run(
        "tuesday", [trace | {"outcome": "infra_error"} for trace in traces(GOOD)]
    )
    failed = service.complete_run(runName="never-uploaded")
    for run, reason in ((good, "did not regress"), (invalid, "not valid"), (failed, "FAILED")):
        problem = service.expect_problem(409, "POST", f"/benchmark-runs/{run['id']}/accept")
        assert problem["type"].endswith("nothing-to-accept")
        assert reason in problem["detail"]
    service.expect_problem(404, "POST", "/benchmark-runs/nobody/accept")
    service.expect_problem(422, "POST", f"/benchmark-runs/{good['id']}/accept", {"note": "x" * 201})
