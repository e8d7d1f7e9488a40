"""What the API selects and sorts by is on the pages, too: each query parameter of a list has a field, a tab or a sortable
column on the page of the same rows, with the same values.
"""

import re
from collections.abc import Iterator, Mapping
from html import unescape
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from mosaico.core.web.page_paths import page_parameter
from tests.support.described_api import api_document
from tests.support.every_page import RUN, write_every_page
from tests.support.service import Service

HTML: Final = {"Accept": "text/html"}
# They page a list, whatever it selects.
OF_EVERY_LIST: Final = frozenset({"limit", "cursor"})
# The page that shows the rows of a list, or the answer, of the API.
PAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "/agents": "/agents",
        "/agents/{agentId}/versions": "/agents/billing",
        "/alert-configs": "/alerts",
        "/alerts": "/alert-history",
        "/audit": "/audit",
        "/benchmark-runs": "/runs",
        "/benchmark-runs.csv": "/runs",
        "/benchmark-runs/compare": f"/compare?base=run-billing-support-1&run={RUN}",
        "/benchmark-runs/compare/items": f"/compare?base=run-billing-support-1&run={RUN}&layout=case",
        "/benchmark-runs/{runId}/annotation-queue": f"/runs/{RUN}/annotations",
        "/benchmark-runs/{runId}/answers": f"/runs/{RUN}",
        "/benchmark-runs/{runId}/results": f"/runs/{RUN}/traces",
        "/benchmarks": "/benchmarks",
        "/daily-summary": "/daily-summary",
        "/alerts.csv": "/alert-history",
        "/deliveries": "/deliveries",
        "/endpoints": "/endpoints",
        "/inbox": "/inbox",
        "/incidents": "/incidents",
        "/kpi-history": "/benchmarks/support/kpis/support-pass",
        "/kpi-history.csv": "/benchmarks/support/kpis/support-pass",
        "/kpi-history.svg": "/benchmarks/support/kpis/support-pass",
        "/kpi-history/trend": "/benchmarks/support/kpis/support-pass",
        "/local-datasets": "/datasets",
        "/notes": "/notes",
        "/notes.csv": "/notes",
        "/notifications": "/inbox",
        "/overview": "/",
        "/overview/fleet": "/fleet",
        "/overview/search": "/search?text=support",
        "/schedule-configs": "/schedules",
        "/silences": "/inbox?tab=silenced",
        "/trigger-events": "/triggers",
    }
)
# What a page calls otherwise: the parameter of the API and that of the page.
RENAMED: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("/benchmark-runs/compare", "baseline"): "base",
        ("/benchmark-runs/compare", "candidate"): "run",
        ("/benchmark-runs/compare/items", "baseline"): "base",
        ("/benchmark-runs/compare/items", "candidate"): "run",
        ("/inbox", "state"): "tab",
        ("/notifications", "unread"): "tab",
        ("/silences", "active"): "when",
        ("/silences", "ended"): "when",
    }
)
TRENDS: Final = ("/kpi-history", "/kpi-history.csv", "/kpi-history.svg", "/kpi-history/trend")
# Parameters without a field, and lists without a page, each with the reason.
EXCEPTIONS: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("/benchmark-runs/compare", "runSd"): "the benchmark states it for all of its runs",
        ("/benchmark-runs/compare", "categoriesAfter"): "a button leads to the next categories",
        ("/benchmark-runs/{runId}/categories", "field"): "the report of a run has its categories, of the tag `category`",
        ("/benchmark-runs/{runId}/nights", "itemId"): "the page is of one item, which its address names",
        ("/daily-summary", "timezone"): "the zone of all pages is chosen at their top",
        ("/kpi-history.svg", "timeZone"): "the zone of all pages is chosen at their top",
        ("/overview", "from"): "offered as the time since the last visit, to readers with one",
        ("/overview/fleet", "timezone"): "the zone of all pages is chosen at their top",
        ("/overview/search", "text"): "the field is at the top of each page",
        **{
            (path, "mine"): "only a person has own agents: tests/integration/alerts/test_own_agents.py"
            for path in ("/overview", "/overview/fleet", "/inbox")
        },
        ("/datasets", "name"): "the list above the uploads has the newest 50 datasets, which are few",
        ("/datasets/{setId}/items", "version"): "the table of versions leads to each",
        ("/datasets/{setId}/item-history", "itemId"): "the page is of one item, which its address names",
        ("/datasets/{setId}/export", "*"): "a button for each format, of the version that the page shows",
        **{
            (path, "*"): "a page shows the annotations of what it is about, and the search finds them by their text"
            for path in ("/annotations", "/annotations.csv")
        },
        ("/annotations/summary", "*"): "a page is of one run or one benchmark, which its address names",
        ("/benchmarks/{benchmarkId}/judges", "minAgreement"): "the page has the agreement of each judge; a limit is for CI",
        ("/benchmark-runs/{runId}/annotation-queue", "queue"): "a form starts each queue",
        ("/benchmark-runs/{runId}/annotation-queue", "since"): "the page sets it when a queue is opened",
        ("/overview/search", "kind"): "a button continues the search of each kind",
        **{
            (path, name): "the page is of one KPI of a benchmark, which its address names"
            for path in TRENDS
            for name in ("benchmarkId", "kpi")
        },
        **{(path, "sort"): "a trend is in the order of its runs" for path in TRENDS[:2]},
    }
)  # fmt: skip


class PageControls(NamedTuple):
    """What a reader can choose on a page: parameters, and for a choice of few its values."""

    names: set[str]
    values: dict[str, set[str]]


@pytest.fixture(scope="module")
def filled(module_service: Service) -> Service:
    with module_service.resources.db.begin() as session:
        write_every_page(session)
    return module_service


def read_controls(client: httpx.Client, path: str) -> PageControls:
    """The fields of the GET forms in the content of a page, and the parameters of its tabs, columns and periods."""
    response = client.get(path, headers=HTML)
    assert response.status_code == 200, response.text
    content = response.text.partition("<main")[2].partition("</main>")[0]
    names, values = set[str](), dict[str, set[str]]()
    for form in re.findall(r'<form(?![^>]*method="post").*?</form>', content, re.DOTALL):
        names |= set(re.findall(r'<(?:input|select)[^>]* name="([^"]+)"', form))
        for name, body in re.findall(r'<select name="([^"]+)".*?>(.*?)</select>', form, re.DOTALL):
            values[name] = set(re.findall(r'<option value="([^"]*)"', body))
    chosen = re.findall(r"<(?:nav class|th [^>]*aria-sort).*?</(?:nav|th)>", content, re.DOTALL)
    for address in re.findall(r'href="([^"]+)"', " ".join(chosen)):
        for name, value in parse_qsl(urlsplit(unescape(address)).query):
            names.add(name)
            if name == "tab":
                values.setdefault(name, set()).add(value)
    return PageControls(names, values)


def query_parameters() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each path of the API below its prefix that is read with GET, and each parameter of its query."""
    for path, operations in api_document()["paths"].items():
        for parameter in operations.get("get", {}).get("parameters", ()):
            if parameter["in"] == "query" and parameter["name"] not in OF_EVERY_LIST:
                yield path.removeprefix("/api/v1"), parameter


def list_values(schema: Mapping[str, Any]) -> set[str]:
    """The values of a parameter of a few."""
    if "$ref" in schema:
        return list_values(
            api_document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        )
    parts = [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())]
    return set(schema.get("enum", ())).union(*map(list_values, parts))


def test_pages__have_each_filter_and_order_of_the_api(filled: Service) -> None:
    missing, used = [], set()
    pages = {path: read_controls(filled.client, page) for path, page in PAGES.items()}
    for path, parameter in query_parameters():
        key = (path, parameter["name"])
        if key in EXCEPTIONS or (path, "*") in EXCEPTIONS:
            used |= {key, (path, "*")} & EXCEPTIONS.keys()
            continue
        controls = pages.get(path)
        name = RENAMED.get(key, page_parameter(parameter["name"]))
        if controls is None or name not in controls.names:
            missing.append(f"{path} {parameter['name']}")
        elif name in controls.values and name != "sort":
            values = list_values(parameter["schema"])
            missing += [
                f"{path} {name}={value}" for value in sorted(values - controls.values[name])
            ]
    assert not missing, "\n".join(missing)
    assert used == EXCEPTIONS.keys()
