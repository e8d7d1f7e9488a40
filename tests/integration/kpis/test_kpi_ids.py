"""The ID of a KPI is unique inside its benchmark: that of one benchmark changes nothing of another."""

import csv
import io

import pytest

from tests.support.service import JSON, Service, pair

HISTORY = "/kpi-history"


def kpi(kpi_id: str, name: str, formula: str = "ACCURACY") -> JSON:
    return {"id": kpi_id, "name": name, "formula": formula}


@pytest.fixture
def teams(service: Service) -> Service:
    """An agent, and an upload with an accuracy of 0.5."""
    service.create_agent()
    service.upload([pair(1), pair(2, output="x")])
    return service


def create_and_run(service: Service, benchmark_id: str, *kpis: JSON) -> JSON:
    service.create_benchmark(benchmark_id, metrics=["ACCURACY"], measures=list(kpis))
    return service.complete_run(benchmarkId=benchmark_id)


def values(service: Service, **parameters: object) -> list[tuple[str, str, float]]:
    entries = service.list_items(HISTORY, **parameters)
    return sorted((entry["benchmarkId"], entry["kpiId"], entry["value"]) for entry in entries)


def test_kpi_id__is_free_in_every_other_benchmark(teams: Service) -> None:
    create_and_run(teams, "one", kpi("quality", "Quality"))
    create_and_run(teams, "two", kpi("quality", "Quality", "2 * ACCURACY"))
    path = "/benchmarks/{}/kpis/quality"
    assert teams.get(path.format("one"))["formula"] == "ACCURACY"
    assert teams.get(path.format("two"))["formula"] == "2 * ACCURACY"
    teams.patch(path.format("two"), {"name": "Grade"})
    assert teams.get(path.format("two"))["revision"] == 2
    assert teams.get(path.format("one"))["revision"] == 1
    assert values(teams, benchmarkId="one", kpi="quality") == [("one", "quality", 0.5)]
    assert values(teams, benchmarkId="two", kpi="quality") == [("two", "quality", 1.0)]
    both = [("one", "quality", 0.5), ("two", "quality", 1.0)]
    assert values(teams, kpi="quality") == both
    assert values(teams, benchmarkId=["one", "two"], kpi="quality") == both
    teams.delete(path.format("two"))
    assert teams.get(path.format("one"))["name"] == "Quality"
    # The taken ID is one that this benchmark has.
    teams.expect_problem(409, "POST", "/benchmarks/one/kpis", kpi("quality", "Another"))


def test_kpi_history__id_in_one_benchmark_is_a_name_in_another(teams: Service) -> None:
    create_and_run(teams, "theirs", kpi("quality", "Theirs", "2 * ACCURACY"))
    create_and_run(teams, "ours", kpi("k-1", "quality"))
    ours, theirs = ("ours", "k-1", 0.5), ("theirs", "quality", 1.0)
    assert values(teams, benchmarkId="ours", kpi="quality") == [ours]
    assert values(teams, benchmarkId="theirs", kpi="quality") == [theirs]
    assert values(teams, benchmarkId=["ours", "theirs"], kpi="quality") == [ours, theirs]
    assert values(teams, kpi="quality") == [ours, theirs]
    parameters = {"benchmarkId": "ours", "kpi": "quality"}
    text = teams.send("GET", "/kpi-history.csv", params=parameters).text
    [row] = csv.DictReader(io.StringIO(text))
    assert (row["kpiId"], float(row["value"])) == ("k-1", 0.5)


def test_kpi_history__name_finds_the_values_from_before_a_rename(teams: Service) -> None:
    create_and_run(teams, "ours", kpi("k-1", "Quality"))
    teams.patch("/benchmarks/ours/kpis/k-1", {"name": "Answer quality"})
    teams.complete_run(benchmarkId="ours")
    both = [("ours", "k-1", 0.5)] * 2
    assert values(teams, benchmarkId="ours", kpi="Answer quality") == both
    assert values(teams, benchmarkId="ours", kpi="Quality") == both
    # A name belongs to the KPI that has it now.
    teams.post("/benchmarks/ours/kpis", kpi("k-2", "Quality"))
    assert values(teams, benchmarkId="ours", kpi="Quality") == []


def test_rule__evaluates_the_kpi_of_its_own_benchmark(teams: Service) -> None:
    for benchmark_id, formula in (("one", "ACCURACY"), ("two", "2 * ACCURACY")):
        teams.create_benchmark(
            benchmark_id, metrics=["ACCURACY"], measures=[kpi("quality", "Quality", formula)]
        )
        body = {
            "name": f"Quality of {benchmark_id}",
            "benchmarkId": benchmark_id,
            "kpi": "quality",
            "condition": "LESS_THAN",
            "threshold": 0.8,
            "severity": "WARNING",
        }
        teams.post("/alert-configs", body)
    for benchmark_id in ("one", "two"):
        teams.complete_run(benchmarkId=benchmark_id)
    alerts = teams.list_items("/alerts")
    assert [(alert["benchmarkId"], alert["value"]) for alert in alerts] == [("one", 0.5)]
    # The rule of one benchmark does not keep the KPI of the other.
    teams.expect_problem(409, "DELETE", "/benchmarks/one/kpis/quality")
    [rule] = teams.list_items("/alert-configs", benchmarkId="two")
    teams.delete(f"/alert-configs/{rule['id']}")
    teams.delete("/benchmarks/two/kpis/quality")
