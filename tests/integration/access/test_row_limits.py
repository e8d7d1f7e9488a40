"""Keys that see some benchmarks only: a canary in each foreign resource is in no response."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from mosaico.access.queries import find_key
from mosaico.access.stream_revocation import KeyStreamOwners
from mosaico.api import PAGES
from mosaico.core.web.event_feeds import StreamOwner
from mosaico.row_policies import INTERNAL_TABLES, LIMITED_TABLES
from mosaico.table_list import METADATA
from tests.support.browser_sessions import HTML, log_in
from tests.support.described_api import api_routes, is_signed, roles
from tests.support.every_page import EXAMPLES, QUERIES, fill_path, page_paths, write_hostile_pages
from tests.support.service import Service, pair

# The name of every foreign resource contains one of these.
CANARIES = ("gnp.exe", "WWWWWWWW", "warehouse", "Langfuse answered 503")
MINE = "mine"


@pytest.fixture
def tokens(service: Service) -> dict[str, str]:
    """Keys with the roles read and run, which see one benchmark with a run, beside a month of others."""
    with service.resources.db.begin() as session:
        write_hostile_pages(session)
    service.create_agent("my-agent", name="Pelican")
    service.create_benchmark(MINE, datasetRef="my-file", evaluates=["my-agent"])
    service.upload([pair(1)], name="my-file", run_name="r", agentId="my-agent")
    service.post("/benchmark-runs", {"benchmarkId": MINE, "agentId": "my-agent", "runName": "r"})
    service.work()
    return {
        role: service.post("/keys", {"name": role, "role": role, "only": [MINE]})["token"]
        for role in ("read", "run")
    }


@pytest.fixture
def reader(service: Service, tokens: dict[str, str]) -> Iterator[httpx.Client]:
    """A browser and program with the key that reads."""
    address = service.client.base_url
    with httpx.Client(
        base_url=address, trust_env=False, verify=False, timeout=300.0,
        headers={"Authorization": f"Bearer {tokens['read']}"},
    ) as client:  # fmt: skip
        yield client


def api_paths() -> list[str]:
    paths = [route.path or "" for route in api_routes() if "GET" in (route.methods or ())]
    return [_filled(path) for path in paths if not path.endswith("/events")]


def _filled(path: str) -> str:
    query = next((query for page, query in QUERIES.items() if path.endswith(page)), "")
    return f"{fill_path(path, {**EXAMPLES, 'itemId': 'case-000'})}?{query}"


def leaks(response: httpx.Response) -> list[str]:
    return [canary for canary in CANARIES if canary in response.text]


def test_every_table__is_limited_or_internal() -> None:
    assert set(METADATA.tables) == LIMITED_TABLES.keys() | INTERNAL_TABLES
    assert not LIMITED_TABLES.keys() & INTERNAL_TABLES


def test_limited_key__sees_no_foreign_resource(
    reader: httpx.Client, tokens: dict[str, str]
) -> None:
    # What the role `read` sees, and more.
    reader.headers["Authorization"] = f"Bearer {tokens['run']}"
    leaking: dict[str, Any] = {}
    statuses: dict[str, int] = {}
    for path in [*api_paths(), *page_paths()]:
        response = reader.get(path, headers=HTML if not path.startswith("/api/") else {})
        statuses[path] = response.status_code
        if found := leaks(response):
            leaking[path] = found
    # Foreign resources are unknown, and what is not a resource is shown or refused.
    assert {200, 403, 404} == set(statuses.values()) - {401, 422}
    assert leaking == {}
    assert {path: status for path, status in statuses.items() if status >= 500} == {}
    # Its own benchmark, or the test would prove nothing.
    assert [run["benchmarkId"] for run in reader.get("/api/v1/benchmark-runs").json()["items"]] == [
        MINE
    ]
    assert "Pelican" in reader.get("/", headers=HTML).text


# Fields of all forms together, each with something foreign.
FORM = {
    "benchmarkId": "support", "benchmark": "support", "agentId": "billing", "agent": "billing", "incident": "alert-0",
    "message": "note-0", "verdict": "noise", "note": "x", "text": "x", "itemId": "case-000", "name": "x", "hours": "1",
}  # fmt: skip
# Of a browser, and not of a benchmark.
SESSION_FORMS = frozenset({"/login", "/logout", "/time-zone", "/login/provider-logout"})


def every_change() -> list[tuple[str, str, str]]:
    """Method, pattern and path of each route, of the API and of pages, that is not GET."""
    api = [
        (method, (route.path or "").removeprefix("/api/v1"), fill_path(route.path or ""))
        for route in api_routes()
        for method in sorted(route.methods or ())
        if method != "GET" and not is_signed(route.dependant)
    ]
    forms = [
        ("POST", route.path, fill_path(route.path))
        for pages in PAGES
        for route in pages.routes
        if route.method == "POST" and route.path not in SESSION_FORMS
    ]
    return [*api, *forms]


def digests(service: Service) -> dict[str, str]:
    """What each table has that is not of the service itself."""
    statement = "SELECT md5(coalesce(string_agg(t::text, '' ORDER BY t::text), '')) FROM {table} t"
    with service.resources.db.read() as session:
        return {
            table: str(session.scalar(text(statement.format(table=table))))
            for table in LIMITED_TABLES
        }


def test_limited_key__changes_nothing_foreign_by_any_route(
    service: Service, tokens: dict[str, str], browser: httpx.Client
) -> None:
    log_in(browser, tokens["run"])
    before = digests(service)
    program = {"Authorization": f"Bearer {tokens['run']}"}
    statuses: dict[str, int] = {}
    for method, pattern, path in every_change():
        if path.startswith("/api/"):
            answer = service.client.request(
                method, path, headers=program, json=BODIES.get(pattern, {})
            )
        else:
            answer = browser.post(path, data=FORM, headers=HTML)
        statuses[f"{method} {path}"] = answer.status_code
        assert leaks(answer) == [], path
    assert len(statuses) > 130
    assert {path: status for path, status in statuses.items() if status >= 500} == {}
    assert digests(service) == before


def test_limited_key__changes_nothing_foreign(service: Service, tokens: dict[str, str]) -> None:
    mine = {"Authorization": f"Bearer {tokens['run']}"}

    def send(method: str, path: str, **more: Any) -> int:
        headers = {**mine, "Content-Type": "application/x-ndjson"} if "content" in more else mine
        return service.client.request(method, f"/api/v1{path}", headers=headers, **more).status_code

    foreign = {"benchmarkId": "support", "agentId": "billing"}
    assert send("POST", "/benchmark-runs", json=foreign) == 404
    assert send("POST", "/benchmark-runs", json={"benchmarkId": MINE, "agentId": "billing"}) == 404
    assert send("POST", "/benchmark-runs/run-in-progress/cancel") == 404
    assert send("POST", "/alerts/alert-0/acknowledge", json={"verdict": "noise"}) == 404
    line = b'{"traceId": "t", "input": "1", "output": "1"}\n'
    ndjson = {"content": line, "params": {"name": "support", "runName": "x"}}
    assert send("POST", "/local-datasets", **ndjson) == 403
    assert send("DELETE", "/local-datasets/upload-1") == 404
    items = {
        "content": b'{"id": "i", "input": "1"}\n',
        "params": {"name": "support", "baseVersion": 2},
    }
    assert send("POST", "/datasets/import", **items) == 403
    assert send("POST", "/datasets", json={"name": "support"}) == 403
    assert (
        send("POST", "/datasets/set-1/versions", json={"baseVersion": 2, "retire": ["case-000"]})
        == 404
    )
    from_trace = {"dataset": "support", "traceId": "t-1"}
    [run] = service.list_items("/benchmark-runs", benchmarkId=MINE)
    assert send("POST", f"/benchmark-runs/{run['id']}/dataset-items", json=from_trace) in (403, 422)
    spans = service.client.post("/v1/traces", headers=mine, json={"resourceSpans": []})
    assert spans.status_code == 403
    # Its own benchmark works as for everybody.
    own = {
        "content": line,
        "params": {"name": "my-file", "runName": "second", "agentId": "my-agent"},
    }
    assert send("POST", "/local-datasets", **own) == 201
    own_items = {**items, "params": {"name": "my-file"}}
    assert send("POST", "/datasets/import", **own_items) == 201
    started = {"benchmarkId": MINE, "agentId": "my-agent", "runName": "second"}
    assert send("POST", "/benchmark-runs", json=started) in (201, 202)
    service.work()
    with httpx.Client(base_url=service.client.base_url, headers=mine, timeout=300.0) as client:
        runs = client.get("/api/v1/benchmark-runs").json()["items"]
    assert {run["status"] for run in runs} == {"COMPLETED"}
    assert len(runs) == 2
    assert {run["datasetVersion"] for run in runs} == {None, 1}


def test_limited_person__is_limited_in_the_browser_and_no_administrator(
    service: Service, tokens: dict[str, str], browser: httpx.Client
) -> None:
    log_in(browser, tokens["read"])
    page = browser.get("/runs")
    assert page.status_code == 200
    assert leaks(page) == []
    for body in ({"role": "admin", "only": [MINE]}, {"role": "read", "only": []}):
        problem = service.expect_problem(422, "POST", "/keys", {"name": "x", **body})
        assert problem["errors"][0]["pointer"] == "/only"


def test_limit_to_an_unknown_benchmark__is_refused_with_its_id(service: Service) -> None:
    with service.resources.db.begin() as session:
        write_hostile_pages(session)
    limit = {"only": ["support", "no-such-benchmark"]}
    key = {"name": "x", "role": "read", **limit}
    for method, path, body in (("POST", "/keys", key), ("PATCH", "/people/person-1", limit)):
        problem = service.expect_problem(422, method, path, body)
        [error] = problem["errors"]
        assert error["pointer"] == "/only/1"
        assert "no-such-benchmark" in error["detail"]


def test_limit__stays_when_its_benchmark_is_deleted(service: Service) -> None:
    for name in (MINE, "foreign"):
        service.create_benchmark(name)
    key = service.post("/keys", {"name": "x", "role": "read", "only": [MINE]})
    headers = {"Authorization": f"Bearer {key['token']}"}

    def seen() -> list[str]:
        listed = service.client.get("/api/v1/benchmarks", headers=headers).json()["items"]
        return [benchmark["id"] for benchmark in listed]

    assert seen() == [MINE]
    service.delete(f"/benchmarks/{MINE}")
    # Nothing, and not everything.
    assert seen() == []
    assert service.get(f"/keys/{key['id']}")["only"] == [MINE]
    # What is shown may be sent back.
    assert service.patch(f"/keys/{key['id']}", {"name": "y", "only": [MINE]})["name"] == "y"
    service.create_benchmark(MINE)
    assert seen() == [MINE]


def test_event_stream__of_a_limited_key_has_its_own_count(
    reader: httpx.Client, service: Service
) -> None:
    def first_event(client: httpx.Client) -> str:
        with client.stream("GET", "/api/v1/notifications/events") as stream:
            return next(line for line in stream.iter_lines() if line.startswith("data:"))

    assert first_event(service.client) != first_event(reader)
    assert reader.get("/api/v1/benchmark-runs/run-in-progress/events").status_code == 404


# What a request of the role run sends, by the end of its path; others send nothing.
BODIES: dict[str, Any] = {
    "/benchmark-runs": {"benchmarkId": "support", "agentId": "billing"},
    "/benchmark-runs/estimate": {"benchmarkId": "support", "agentId": "billing"},
    "/alerts/{alertId}/ack": {"verdict": "noise"},
    "/silences": {"matchers": {"benchmarkId": "support"}, "endsAt": "2099-01-01T00:00:00Z"},
    "/silences/{silenceId}": {"comment": "planned"},
    "/benchmark-runs/{runId}/notes": {"text": "planned"},
    "/incidents/{incidentId}/notes": {"text": "planned"},
}
# Of the whole service; uploads, which have tests of their own; and the delivery of the example, which is of a test.
NOT_OF_A_BENCHMARK = (
    "/traces", "/logs", "/metrics", "/local-datasets", "/local-datasets/import", "/local-datasets/{datasetId}",
    "/redeliver",
)  # fmt: skip


def run_operations() -> list[tuple[str, str]]:
    """Method and path of what the role run may do with resources of a benchmark; deletions last."""
    operations = [
        (method, (route.path or "").removeprefix("/api/v1"))
        for route in api_routes()
        for method in route.methods or ()
        if method != "GET" and roles(route.dependant)[-1:] == ["run"]
    ]
    kept = [each for each in operations if not each[1].endswith(NOT_OF_A_BENCHMARK)]
    return sorted(kept, key=lambda each: (each[0] == "DELETE", each))


def refusals(service: Service, token: str) -> dict[str, str]:
    """The operations that a key may not do, or that fail, with the answer."""
    headers = {"Authorization": f"Bearer {token}"}
    refused = {}
    for method, path in run_operations():
        answer = service.client.request(
            method, f"/api/v1{fill_path(path)}", headers=headers, json=BODIES.get(path, {})
        )
        if answer.status_code in (403, 404, 422, 500):
            refused[f"{method} {path}"] = f"{answer.status_code} {answer.text}"
    return refused


def test_limited_key__does_with_its_own_benchmarks_what_others_do(service: Service) -> None:
    with service.resources.db.begin() as session:
        write_hostile_pages(session)
    assert len(run_operations()) > 10
    every = [benchmark["id"] for benchmark in service.list_items("/benchmarks")]
    key = service.post("/keys", {"name": "x", "role": "run", "only": every})
    limited = refusals(service, key["token"])
    unlimited = refusals(service, service.post("/keys", {"name": "x", "role": "run"})["token"])
    assert {one: text for one, text in limited.items() if one not in unlimited} == {}


def test_message_with_a_foreign_alert__is_foreign(service: Service) -> None:
    with service.resources.db.begin() as session:
        write_hostile_pages(session)
        notes = session.execute(
            text(
                "SELECT min(notification_id), min(id) FROM alert_events WHERE notification_id IS NOT NULL"
                " GROUP BY benchmark_id ORDER BY benchmark_id = 'support' DESC"
            )
        ).all()
    token = service.post("/keys", {"name": "x", "role": "read", "only": ["support"]})["token"]
    headers = {"Authorization": f"Bearer {token}"}
    path = f"/api/v1/notifications/{notes[0][0]}"
    assert service.client.get(path, headers=headers).status_code == 200
    # As messages about an agent, which gather its alerts of several benchmarks.
    with service.resources.db.begin() as session:
        gathered = {"note": notes[0][0], "alert": notes[1][1]}
        session.execute(
            text("UPDATE alert_events SET notification_id = :note WHERE id = :alert"), gathered
        )
    assert service.client.get(path, headers=headers).status_code == 404


def test_upload_of_a_limited_key__is_redacted_by_all_who_read_it(service: Service) -> None:
    service.create_agent("a")
    service.create_benchmark(MINE, datasetRef="shared", evaluates=["a"])
    rules = {"patterns": ["secret-[0-9]+"]}
    service.create_benchmark("foreign", datasetRef="shared", evaluates=["a"], redact=rules)
    token = service.post("/keys", {"name": "x", "role": "run", "only": [MINE]})["token"]
    sent = service.client.post(
        "/api/v1/local-datasets",
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/x-ndjson"},
        content=b'{"traceId": "t", "input": "secret-42", "output": "1"}\n',
        params={"name": "shared", "runName": "r", "agentId": "a"},
    )
    assert (sent.status_code, sent.json()["redactedTexts"]) == (201, 1)


def test_key_of_a_limited_person__sees_what_both_see(service: Service) -> None:
    with service.resources.db.begin() as session:
        write_hostile_pages(session)
    body = {"name": "x", "role": "admin", "personId": "person-1"}
    token = service.post("/keys", body)["token"]
    service.patch("/people/person-1", {"only": ["support"]})
    with service.resources.db.read_statement() as session:
        key = find_key(session, token)
    assert key is not None
    assert (key.role, key.only) == ("run", ("support",))


def test_limit_of_an_administrator__is_shown_with_the_role_run(service: Service) -> None:
    with service.resources.db.begin() as session:
        write_hostile_pages(session)
        session.execute(text("UPDATE people SET role = 'admin'"))
    assert service.patch("/people/person-1", {"only": ["support"]})["role"] == "run"
    assert service.patch("/people/person-1", {"only": None})["role"] == "admin"


def test_new_limit__ends_the_streams_of_a_person(service: Service) -> None:
    with service.resources.db.begin() as session:
        write_hostile_pages(session)
    owners = KeyStreamOwners(service.resources.db, service.resources.clock)
    before = StreamOwner("person-1")
    assert owners.find_unusable({before}) == set()
    service.patch("/people/person-1", {"only": ["support"]})
    assert owners.find_unusable({before, StreamOwner("person-1", None, ("support",))}) == {before}
