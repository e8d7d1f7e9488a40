"""Pages over HTTP, without a browser: their links into the API, and what each role is shown."""

import inspect
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from html import unescape
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from mosaico.access.deps import READ, RUN
from mosaico.api import PAGES
from mosaico.core.web.openapi import iter_operations
from mosaico.core.web.query_parameters import ListQuery
from mosaico.core.web.routes import DeclaredRoute
from mosaico.triggers.models import TriggerEvent
from tests.browser.identities import list_names
from tests.support.described_api import api_document
from tests.support.every_page import (
    EXAMPLES,
    QUERIES,
    fill_path,
    iter_page_routes,
    page_paths,
    page_paths_without_data,
    shorten_lists,
    write_every_page,
)
from tests.support.service import Service, pair
from tests.support.waiting import LIVENESS_S

# Filters of a list that has pages, besides none.
FILTERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "/runs": ("agent=billing", "verdict=NO_EVIDENCE", "sort=agent", "sort=created", "agent=sql&text=support-2&sort=-agent"),
        "/runs/{runId}/traces": ("state=failed", "metric=LATENCY_MS&below=900", "below=0.5", "text=order"),
        "/audit": ("outcome=done", "action=create_agent"), "/inbox": ("tab=all",), "/alerts": ("benchmark=support",),
        "/incidents": ("state=OPEN", "rule=rule-1"), "/alert-history": ("acknowledged=false", "from=2020-01-01"),
        "/agents": ("archived=true",), "/benchmarks": ("archived=true",),
    }
)  # fmt: skip
# A list that only a query makes.
LIST_QUERIES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "/compare": tuple(
            f"{QUERIES['/compare']}&layout=case{more}" for more in ("", "&sort=item", "&metric=LATENCY_MS&sort=rise")
        )
    }
)  # fmt: skip
LISTS: Final = [
    f"{fill_path(route.path)}{'?' if query else ''}{query}"
    for route in iter_page_routes()
    if ListQuery in (p.annotation for p in inspect.signature(route.endpoint).parameters.values())
    for query in LIST_QUERIES.get(route.path, ("", *FILTERS.get(route.path, ())))
]
# Silences and the last 30 fires of a schedule are shown whole.
ROWS: Final = re.compile(r"<(?:tr|article)[^>]* data-row")
# With pages of one row there is a page between the first and the last one.
ROWS_OF_LIST: Final = 3
# Forms that do more than the operation of the same name.
FORMS_OF: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        # A button of the form also sends a test message.
        "save_endpoint": ("sendTest",),
        "acknowledge_incident": ("dismissIncident",),
        "withdraw_judgements": ("withdrawJudgement",),
        "upload_traces": ("importResults",),
        "show_estimate": ("estimateRun",),
    }
)
# Operations that no page needs, each with the reason.
OF_PROGRAMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("isAlive", "isReady", "metricsPage"), "a monitor asks it"),
        **dict.fromkeys(("exportSpans", "exportLogs", "receiveLangfuseEvent", "startRunsByWebhook"), "a program calls it"),
        **dict.fromkeys(
            ("replaceAgent", "replaceAlertConfig", "replaceBenchmark", "replaceKpi", "replaceSchedule"),
            "a form changes the fields that somebody edits",
        ),
        "describeProblem": "the page of an error says what is wrong",
        "listErrors": "the page of a run has its errors by the rule that classed them",
        "listRunEvaluations": "the page of a run has the evaluations of its alert rules",
        "listCategories": "the comparison has the categories",
        "listRunLlmUsage": "the page of a run that has called a model links to it; none of the month has",
        "listKpis": "the benchmark has its KPIs",
        "changePerson": "the page of a person blocks and unblocks; limits are set by programs",
        **dict.fromkeys(("listNotifications", "getNotification"), "the inbox has the messages"),
        "purgeTexts": "it cannot be undone: `mosaico datasets purge` asks first",
        "checkSystem": "`mosaico doctor` asks it; the page of the system has the checks that call nobody",
        "getNote": "the list of notes has the whole of each",
        **dict.fromkeys(
            ("createItemFromRun", "createItemFromUpload", "editDataset", "getVersion"),
            "forms and pages of datasets and traces do the same under other names",
        ),
        "getAnnotation": "a page shows the annotations of what it is about",
        "getSilence": "the list of silences has the whole of each",
        "listLangfuseSecrets": "the page of the events has them, for admins",
        **dict.fromkeys(
            ("listObjectsOfFiles", "saveObjectOfFile", "forgetObjectOfFile", "getProjectFileSchema"),
            "`mosaico apply` and editors read and write them",
        ),
    }
)  # fmt: skip
COPIED_TABLES: Final = ("alert_rules", "incidents", "endpoints", "deliveries")


class ListPage(NamedTuple):
    """A page of a list: its HTML, the addresses in it, and the rows that it shows."""

    html: str
    api: str
    following: str | None
    rows: int


@pytest.fixture(scope="module")
def rows(module_service: Service) -> Service:
    """At least two rows in each list."""
    service = module_service
    with service.resources.db.begin() as session:
        write_every_page(session)
        for table in COPIED_TABLES:
            copy_row(session, table)
        session.execute(
            text("UPDATE collected_traces SET outcome = 'agent_error' WHERE position < 4")
        )
        session.add_all(
            TriggerEvent(
                id=f"event-{number}", type="webhook", details={}, status="IGNORED",
                benchmark_ids=[], run_ids=[], received_at=datetime.now(UTC),
            )
            for number in range(ROWS_OF_LIST)
        )  # fmt: skip
    for task in ("answer", "answer well"):
        service.patch("/benchmarks/support", {"taskDef": task})
    for number in range(ROWS_OF_LIST):
        service.create_agent(f"heron-{number}")
        service.create_benchmark(f"herons-{number}", metrics=["ROUGE"])
        service.upload([pair(number)], "herons", f"night-{number}")
        service.post(
            "/schedule-configs",
            {"name": f"night {number}", "benchmarkId": "support", "cronExpression": "0 0 6 * * *", "agentId": "sql"},
        )  # fmt: skip
        for path in (f"/agents/heron-{number}", f"/benchmarks/herons-{number}"):
            service.patch(path, {"archived": True}) if number else None
    return service


def copy_row(session: Session, table: str) -> None:
    """A second row like the first one."""
    [row] = session.execute(text(f"SELECT to_jsonb(t) FROM {table} t LIMIT 1")).scalars()
    copied = json.dumps(
        {**row, **{name: "copy" for name in ("id", "recipient_hash", "endpoint_id") if name in row}}
    )
    session.execute(
        text(f"INSERT INTO {table} SELECT * FROM jsonb_populate_record(NULL::{table}, CAST(:row AS jsonb))"),
        {"row": copied},
    )  # fmt: skip


@pytest.fixture
def one_row_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page of a list shows one row, so that few rows make many pages."""
    shorten_lists(monkeypatch, 1)


def read_list(client: httpx.Client, path: str) -> ListPage:
    response = client.get(path, headers={"Accept": "text/html"})
    assert response.status_code == 200, response.text
    html = response.text
    [api] = re.findall(r'<link rel="alternate" type="application/json" href="([^"]+)"', html)
    following = re.search(r'href="([^"]+)" rel="next"', html)
    return ListPage(
        html, unescape(api), unescape(following[1]) if following else None, len(ROWS.findall(html))
    )


@pytest.mark.usefixtures("one_row_pages")
@pytest.mark.parametrize("path", LISTS)
def test_list__each_page_links_to_its_rows_in_the_api(path: str, rows: Service) -> None:
    """Criterion 39: the JSON has the rows that the page shows, on later pages and with filters too."""
    row_names: list[str] = []
    following: str | None = path
    for _ in range(ROWS_OF_LIST):
        assert following is not None
        page = read_list(rows.client, following)
        items: list[dict[str, Any]] = rows.client.get(page.api).json()["items"]
        assert len(items) == page.rows == 1
        [name] = list_names({"items": items})
        assert name in unquote(unescape(page.html))
        assert name not in row_names, "the JSON of this page has a row of an earlier page"
        row_names.append(name)
        following = page.following
        if following is None:
            break
    assert len(row_names) >= 2


def test_head__of_a_page_is_answered_like_get_without_a_body(rows: Service) -> None:
    headers = {"Accept": "text/html"}
    for path in (
        "/",
        "/runs",
        "/agents/billing",
        "/help",
        "/login",
        "/agents/nobody",
        "/no-such-page",
    ):
        page, head = (
            rows.client.request(method, path, headers=headers) for method in ("GET", "HEAD")
        )
        assert head.status_code == page.status_code, path
        assert head.headers["content-type"] == page.headers["content-type"]
        assert not head.content
    # A link that logs in once is not used up, and the API stays as it is described.
    assert rows.client.head("/login?once=unknown").status_code == HTTPStatus.OK
    for path, allowed in (("/inbox/read-all", "POST"), ("/api/v1/agents", "GET, POST")):
        head = rows.client.head(path)
        assert (head.status_code, head.headers["allow"]) == (HTTPStatus.METHOD_NOT_ALLOWED, allowed)
    assert rows.client.put("/agents").headers["allow"] == "GET, HEAD, POST"


@pytest.mark.parametrize("role", ["read", "run"])
def test_role__sees_no_link_or_form_that_is_refused(role: str, service: Service) -> None:
    """Criterion 21: nothing on a page answers 403 to its reader, without data and with data."""
    token = service.post("/keys", {"name": role, "role": role})["token"]
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/html"}
    with httpx.Client(
        base_url=service.client.base_url, headers=headers, timeout=LIVENESS_S
    ) as client:
        refused = find_refused(client, role, page_paths_without_data())
        with service.resources.db.begin() as session:
            write_every_page(session)
        refused |= find_refused(client, role, page_paths())
    assert refused == set()


def find_refused(client: httpx.Client, role: str, paths: Iterable[str]) -> set[str]:
    """Links and forms of the pages that a role may open, each with its page, that need another role."""
    allowed = {"read": (READ,), "run": (READ, RUN)}[role]
    refused = set()
    for path in paths:
        page = client.get(path)
        if page.status_code == HTTPStatus.FORBIDDEN:
            continue
        for attributes in re.findall(r"<(?:a|form)\b([^>]*)", page.text):
            target = re.search(r'(?:href|action)="(/[^"#?]*)', attributes)
            method = "POST" if 'method="post"' in attributes else "GET"
            needed = target and needed_role(method, unquote(unescape(target[1])))
            if target and needed and needed[:1] not in allowed:
                refused.add(f"{path}: {method} {target[1]}")
    return refused


@cache
def needed_role(method: str, path: str) -> Any:
    """The dependencies of the first route of a path; None if everybody may call it."""
    for pattern, route in page_routes():
        if route.method == method and pattern.fullmatch(path):
            return route.options.get("dependencies")
    return None


@cache
def page_routes() -> list[tuple[re.Pattern[str], DeclaredRoute]]:
    """Each route of the pages with the pattern of its paths."""
    routes = []
    for route in (route for router in PAGES for route in router.routes):
        pattern = re.sub(r"\\{\w+:path\\}", ".+", re.escape(route.path))
        routes.append((re.compile(re.sub(r"\\{\w+\\}", "[^/]+", pattern)), route))
    return routes


def test_every_operation__is_on_a_page_or_is_of_programs(rows: Service) -> None:
    """What a person can do with the API by hand, a page offers: a link to its data, or a form."""
    offered = set[str]()
    for path in [*page_paths(), *write_other_states(rows)]:
        response = rows.client.get(path, headers={"Accept": "text/html"})
        offered |= set(read_operations(response.text))
    names = {operation["operationId"] for operation in iter_operations(api_document())}
    # A new operation needs an action on a page, or a reason above.
    assert names - offered == OF_PROGRAMS.keys()


def write_other_states(service: Service) -> list[str]:
    """A disabled endpoint, one that signs, a pinned run, a judged incident, a read message, an answer that the reader judged,
    and a secret of each kind; returns the pages that show them.
    """
    judged = {"traceId": EXAMPLES["traceId"], "judgement": "right"}
    service.post(f"/benchmark-runs/{EXAMPLES['runId']}/annotations", judged)
    service.post("/incidents/alert-0/acknowledge")
    service.put("/benchmarks/support/baseline", {"runId": "run-billing-support-1"})
    target = {"channel": "WEBHOOK", "recipient": "https://a.example/b"}
    test = service.post("/notifications/test", target)
    service.post(f"/notifications/{test['notificationId']}/read")
    service.post("/benchmarks/support/webhook-secrets", {})
    service.post("/langfuse-secrets", {"name": "project", "secret": "lf-whsec_" + "x" * 32})
    with service.resources.db.begin() as session:
        session.execute(
            text(
                "UPDATE endpoints SET disabled_at = now(), disabled_reason = 'gone' WHERE id = 'copy'"
            )
        )
    runs = [f"/runs/run-billing-support-{number}" for number in (1, 2)]
    return ["/", *runs, f"/endpoints/{test['endpointId']}", "/endpoints/copy"]


def read_operations(html: str) -> Iterator[str]:
    """The operations of the API that a page leads to: by its links, its streams, its command and its forms."""
    for address in re.findall(r'"(/(?:api/v1|openapi|metrics|problems)[^"#?]*)', html):
        yield from find_operations("GET", unescape(address))
    for command in re.findall(r'data-copy="(curl [^"]+ --json [^"]+)"', html):
        yield from find_operations("POST", httpx.URL(shlex.split(unescape(command))[-1]).path)
    for action in re.findall(
        r'<form method="post" action="([^"?]+)|<form [^>]*method="post" action="([^"?]+)', html
    ):
        path = unquote(unescape("".join(action)))
        for pattern, route in page_routes():
            if route.method == "POST" and pattern.fullmatch(path):
                name = route.endpoint.__name__
                first, *others = name.split("_")
                yield first + "".join(map(str.capitalize, others))
                yield from FORMS_OF.get(name, ())
                break


@cache
def find_operations(method: str, path: str) -> list[str]:
    """The operation of a request; a fixed path comes before one with parameters."""
    for pattern, operations in api_routes():
        if method.lower() in operations and pattern.fullmatch(path):
            return [operations[method.lower()]["operationId"]]
    return []


@cache
def api_routes() -> list[tuple[re.Pattern[str], dict[str, Any]]]:
    """The pattern of each path of the API with its operations, those without parameters first."""
    paths = sorted(api_document()["paths"].items(), key=lambda item: item[0].count("{"))
    return [
        (re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(template))), operations)
        for template, operations in paths
    ]
