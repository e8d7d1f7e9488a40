"""The API that a report reads, answered in this process: the same views without a request."""

from datetime import datetime
from typing import Any
from urllib.parse import unquote

from pydantic import BaseModel

from app.alerts.queries import SeriesFilter
from app.alerts.router import list_alerts
from app.core.keyset import PageQuery
from app.core.resources import Resources
from app.kpis.queries import KpiHistoryFilter
from app.kpis.router import list_kpi_history
from app.metrics.router import list_metrics
from app.runs.router import (
    get_run,
    list_categories,
    list_run_kpis,
    list_run_metrics,
    list_run_results,
)

JSON = dict[str, Any]

PAGE_SIZE = 200
RUNS = "/benchmark-runs/"


class StoredApi:
    """Answers the requests of `load_report` from the database."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    @property
    def pages_url(self) -> str:
        return self._resources.options.get("public_url", "")

    def get(self, path: str) -> JSON:
        """Raises: `RunNotFound`."""
        if path == "/metrics":
            return _document(list_metrics())
        run_id, _, part = path.removeprefix(RUNS).partition("/")
        read = {
            "": get_run,
            "kpis": list_run_kpis,
            "metrics": list_run_metrics,
            "categories": list_categories,
        }[part]
        return _document(read(unquote(run_id), self._resources))

    def page(self, path: str, *, limit: int, **parameters: str) -> JSON:
        """At most `limit` items of a list; longer lists are read page by page."""
        items: list[JSON] = []
        cursor: str | None = None
        while len(items) < limit:
            size = min(PAGE_SIZE, limit - len(items))
            page = self._list(path, PageQuery(limit=size, cursor=cursor), parameters)
            items += page["items"]
            cursor = page["nextCursor"]
            if cursor is None:
                break
        return {"items": items, "nextCursor": cursor}

    def _list(self, path: str, page: PageQuery, parameters: dict[str, str]) -> JSON:
        if path == "/alerts":
            return _document(
                list_alerts(self._resources, page, SeriesFilter(), run_id=[parameters["runId"]])
            )
        if path == "/kpi-history":
            return _document(
                list_kpi_history(
                    self._resources,
                    page,
                    KpiHistoryFilter(
                        benchmark_ids=[parameters["benchmarkId"]],
                        agent_ids=[parameters["agentId"]],
                        kpis=[parameters["kpi"]],
                        until=datetime.fromisoformat(parameters["to"]),
                    ),
                )
            )
        run_id = unquote(path.removeprefix(RUNS).removesuffix("/results"))
        return _document(list_run_results(run_id, self._resources, page))


def _document(view: BaseModel) -> JSON:
    return view.model_dump(mode="json", by_alias=True)
