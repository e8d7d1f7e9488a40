"""What runs are compared with: the run before, a pinned one, the mean of several; and what is kept
for that.
"""

from datetime import timedelta

import pytest

from mosaico.runs.retention import purge_runs_before
from tests.integration.verdicts.conftest import CompleteRun, traces
from tests.support.service import Service

BASELINE = "/benchmarks/bench-001/baseline"
GOOD, BAD = range(5), range(20)


def test_pinned_run__is_the_baseline_and_stays_until_unpinned(
    service: Service, complete_run: CompleteRun
) -> None:
    first = complete_run("monday", traces(GOOD))
    pinned = service.put(BASELINE, {"runId": first["id"]})
    assert (pinned["agentId"], pinned["runId"]) == ("agent-001", first["id"])
    problem = service.expect_problem(409, "DELETE", f"/benchmark-runs/{first['id']}")
    assert problem["type"].endswith("run-is-baseline")
    now = service.resources.clock()
    with service.resources.db.begin() as session:
        assert purge_runs_before(session, now + timedelta(days=1), now) == 0
    second = complete_run("tuesday", traces(BAD))
    third = complete_run("wednesday", traces(BAD))
    assert third["verdict"]["baseline"] == {"mode": "PINNED", "runIds": [first["id"]]}
    assert third["verdict"]["verdict"] == "REGRESSED"
    assert service.get(BASELINE)["pinned"][0]["runId"] == first["id"]
    service.delete(BASELINE)
    assert service.get(BASELINE)["pinned"] == []
    fourth = complete_run("thursday", traces(BAD))
    # Tuesday and Wednesday regressed and were not accepted.
    assert fourth["verdict"]["baseline"] == {"mode": "PREVIOUS_VALID", "runIds": [first["id"]]}
    assert second["verdict"]["verdict"] == "REGRESSED"
    service.delete(f"/benchmark-runs/{first['id']}")


def test_pin__refuses_invalid_runs_and_other_benchmarks(
    service: Service, complete_run: CompleteRun
) -> None:
    invalid = complete_run("monday", [trace | {"outcome": "infra_error"} for trace in traces(GOOD)])
    problem = service.expect_problem(409, "PUT", BASELINE, {"runId": invalid["id"]})
    assert problem["type"].endswith("baseline-unfit")
    service.create_benchmark("other")
    other = complete_run("tuesday", traces(GOOD))
    service.expect_problem(422, "PUT", "/benchmarks/other/baseline", {"runId": other["id"]})
    service.expect_problem(404, "PUT", BASELINE, {"runId": "nobody"})


def test_baseline__may_be_the_mean_of_the_last_runs(
    service: Service, complete_run: CompleteRun
) -> None:
    service.patch("/benchmarks/bench-001", {"baseline": {"mode": "MEAN_OF_LAST", "runs": 2}})
    runs = [
        complete_run(f"n-{n}", traces(failed)) for n, failed in enumerate((BAD, BAD, GOOD, GOOD))
    ]
    last = runs[-1]
    expected = [runs[2]["id"], runs[1]["id"]]
    assert last["verdict"]["baseline"] == {"mode": "MEAN_OF_LAST", "runIds": expected}
    [kpi] = service.get(f"/benchmark-runs/{last['id']}/kpis")["items"]
    # The two before: 20/40 and 35/40, together 55/80; this one 35/40.
    assert kpi["verdict"]["baselineValue"] == pytest.approx(0.6875)
    assert kpi["verdict"]["effect"] == pytest.approx(0.1875)


def test_clusters__items_with_one_tag_are_compared_as_clusters(
    service: Service, complete_run: CompleteRun
) -> None:
    service.patch("/benchmarks/bench-001", {"clusterField": "topic"})

    def tagged(failed: range) -> list[dict[str, object]]:
        return [
            trace | {"tags": [f"topic:{number % 12}"]}
            for number, trace in enumerate(traces(failed))
        ]

    complete_run("monday", tagged(GOOD))
    run = complete_run("tuesday", tagged(BAD))
    [kpi] = service.get(f"/benchmark-runs/{run['id']}/kpis")["items"]
    assert kpi["verdict"]["clusters"] == 12
    service.expect_problem(422, "PATCH", "/benchmarks/bench-001", {"clusterField": "to pic"})
