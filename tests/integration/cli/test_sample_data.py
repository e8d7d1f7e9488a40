"""`mosaico demo`: sample data that says so, and that is deleted without a trace."""

import re

from tests.integration.cli.conftest import Shell
from tests.support.service import Service

LISTS = (
    "/agents",
    "/benchmarks",
    "/local-datasets",
    "/benchmark-runs",
    "/kpi-history",
    "/notifications",
)


def test_demo__loads_a_run_that_got_worse_and_deletes_it(
    mosaico: Shell, service: Service, worker: None
) -> None:
    assert "there is no sample data" in mosaico.ok("demo", "--remove").stderr
    # Loaded twice, it is there once.
    for _ in range(2):
        loaded = mosaico.ok("demo", "--quiet")
    assert "mosaico demo --remove" in loaded.stderr
    # What a run ends with: the verdict, of the first run only why it has none.
    assert re.findall(r"^(First run|REGRESSED): ", loaded.stderr, re.MULTILINE) == [
        "First run",
        "REGRESSED",
    ]
    [link] = loaded.stdout.split()
    run_id = link.rpartition("/")[2]
    second, first = service.list_items("/benchmark-runs")
    assert second["id"] == run_id
    # Ten of sixty questions are about refunds; four others are wrong in both runs.
    assert second["verdict"]["verdict"] == "REGRESSED"
    [kpi, _] = service.get(f"/benchmark-runs/{run_id}/kpis")["items"]
    assert (kpi["name"], kpi["value"]) == ("pass rate", 46 / 60)
    assert not (first["verdict"] or {}).get("verdict")
    for path in ("/", f"/runs/{run_id}", "/benchmarks/sample-benchmark", "/agents/sample-agent"):
        html = service.client.get(path, headers={"Accept": "text/html"}).text
        assert re.search("Sample: support", html), path
    assert (
        "sample data</span>"
        in service.client.get(f"/runs/{run_id}", headers={"Accept": "text/html"}).text
    )
    assert "the sample data is deleted" in mosaico.ok("demo", "--remove").stderr
    assert {path: service.list_items(path) for path in LISTS} == {path: [] for path in LISTS}
