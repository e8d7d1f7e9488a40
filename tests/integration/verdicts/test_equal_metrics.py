"""Metrics with the same value on each item of both runs are one row; KPIs keep their names."""

import re

from typer.testing import CliRunner

from mosaico.cli import cli
from tests.integration.verdicts.conftest import traces
from tests.support.service import Service

ROW_NAMES = re.compile(r'<th scope="row" class="name">(.*?)</th>', re.DOTALL)


def test_equal_metrics__are_one_row_of_the_run(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(
        metrics=["ACCURACY", "EXACT_MATCH", "STATUS"],
        measures=[
            {"id": "a", "name": "a", "formula": "ACCURACY"},
            {"id": "b", "name": "b", "formula": "EXACT_MATCH"},
        ],
    )
    for name, failed in (("monday", range(5)), ("tuesday", range(20))):
        service.upload(traces(failed), run_name=name)
        run = service.complete_run(runName=name)
    metrics = service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
    same_as = {row["metric"]: row["verdict"]["sameAs"] for row in metrics}
    assert same_as == {"ACCURACY": None, "EXACT_MATCH": "ACCURACY", "STATUS": None}
    kpis = service.get(f"/benchmark-runs/{run['id']}/kpis")["items"]
    assert {kpi["name"]: kpi["verdict"]["verdict"] for kpi in kpis} == {
        "a": "REGRESSED",
        "b": "REGRESSED",
    }
    page = service.client.get(f"/runs/{run['id']}").text.partition('id="metrics"')[2]
    rows = [re.sub(r"<[^>]*>|\s", "", name) for name in ROW_NAMES.findall(page)]
    assert rows[:2] == ["ACCURACY,EXACT_MATCH", "STATUS"]
    env = {
        "MOSAICO_URL": str(service.client.base_url).rstrip("/"),
        "MOSAICO_API_KEY": service.client.headers["Authorization"].removeprefix("Bearer "),
    }
    shown = CliRunner().invoke(cli, ["runs", "show", run["id"]], env=env)
    assert "ACCURACY, EXACT_MATCH" in shown.output
