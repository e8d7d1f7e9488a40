"""What a report of a run needs, asked of the API."""

from typing import Any

from app.core.console.api_client import ApiClient, quote_segment
from app.reporting.run_report import HIGHER_IS_BETTER, RunReport

JSON = dict[str, Any]

RUNS_BACK = 30
MOST_ALERTS = 100
MOST_TRACES = 5_000


def report_of(api: ApiClient, run_id: str) -> RunReport:
    """A run with what belongs to it; of its traces at most the first 5000."""
    path = f"/benchmark-runs/{quote_segment(run_id)}"
    run = api.get(path)
    kpis, metrics = api.get(f"{path}/kpis")["items"], api.get(f"{path}/metrics")["items"]
    purged = run["purgedAt"] is not None
    return RunReport(
        run=run,
        metrics=metrics,
        kpis=kpis,
        history={kpi["kpiId"]: _history(api, kpi) for kpi in kpis},
        alerts=api.page("/alerts", limit=MOST_ALERTS, runId=run_id)["items"],
        results=[] if purged else api.page(f"{path}/results", limit=MOST_TRACES)["items"],
        direction=_direction(api, metrics[0]["metric"]) if metrics else HIGHER_IS_BETTER,
        public_url=api.url,
    )


def _history(api: ApiClient, kpi: JSON) -> list[float]:
    """The values of a KPI in the valid runs before this one, oldest first, and its own."""
    asked = {name: kpi[name] for name in ("benchmarkId", "agentId")}
    asked |= {"kpi": kpi["kpiId"], "to": kpi["recordedAt"]}
    earlier = api.page("/kpi-history", limit=RUNS_BACK - 1, **asked)["items"]
    valid = [each for each in reversed(earlier) if each["validity"] == "VALID"]
    return [each["value"] for each in (*valid, kpi) if each["value"] is not None]


def _direction(api: ApiClient, metric: str) -> str:
    """The good side of a metric, as far as it is still known."""
    known = {each["key"]: each["direction"] for each in api.get("/metrics")["items"]}
    return str(known.get(metric.partition("[")[0].partition("{")[0], HIGHER_IS_BETTER))
