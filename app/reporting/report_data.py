"""Loads the data of a run report from the API."""

from typing import Any, Protocol

from app.core.console.api_client import quote_segment
from app.reporting.run_report import HIGHER_IS_BETTER, RunReport

JSON = dict[str, Any]

RUNS_BACK = 30
MAX_ALERTS = 100
MAX_TRACES = 5_000


class ReportApi(Protocol):
    """The part of an API client that a report reads."""

    @property
    def pages_url(self) -> str: ...

    def get(self, path: str) -> JSON: ...

    def page(self, path: str, *, limit: int, **parameters: str) -> JSON: ...


def load_report(api: ReportApi, run_id: str) -> RunReport:
    """The report of a run; at most the first 5,000 of its traces."""
    path = f"/benchmark-runs/{quote_segment(run_id)}"
    run = api.get(path)
    kpis, metrics = api.get(f"{path}/kpis")["items"], api.get(f"{path}/metrics")["items"]
    purged = run["purgedAt"] is not None
    return RunReport(
        run=run,
        metrics=metrics,
        kpis=kpis,
        history={kpi["kpiId"]: _history(api, kpi) for kpi in kpis},
        alerts=api.page("/alerts", limit=MAX_ALERTS, runId=run_id)["items"],
        results=[] if purged else api.page(f"{path}/results", limit=MAX_TRACES)["items"],
        direction=_direction(api, metrics[0]["metric"]) if metrics else HIGHER_IS_BETTER,
        public_url=api.pages_url,
        categories=_categories(api, path, run),
    )


def _categories(api: ReportApi, path: str, run: JSON) -> list[JSON]:
    """The values by category; none of a run that is not completed or has no traces anymore."""
    if run["status"] != "COMPLETED" or run["purgedAt"] is not None:
        return []
    categories: list[JSON] = api.get(f"{path}/categories")["items"]
    return categories


def _history(api: ReportApi, kpi: JSON) -> list[float]:
    """The values of a KPI in the valid runs before this one, oldest first, and its own."""
    parameters = {name: kpi[name] for name in ("benchmarkId", "agentId")}
    parameters |= {"kpi": kpi["kpiId"], "to": kpi["recordedAt"]}
    earlier = api.page("/kpi-history", limit=RUNS_BACK - 1, **parameters)["items"]
    valid = [entry for entry in reversed(earlier) if entry["validity"] == "VALID"]
    return [entry["value"] for entry in (*valid, kpi) if entry["value"] is not None]


def _direction(api: ReportApi, metric: str) -> str:
    """The direction of a metric; HIGHER_IS_BETTER when its plugin is no longer installed."""
    directions = {metric["key"]: metric["direction"] for metric in api.get("/metrics")["items"]}
    return str(directions.get(metric.partition("[")[0].partition("{")[0], HIGHER_IS_BETTER))
