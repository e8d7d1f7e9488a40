"""The token in a webhook URL is a credential: no role reads it, on no page, in no answer, report or dump."""

import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest
from fastapi.responses import Response

from mosaico.notifications import registry
from mosaico.postgres.external import psql_environment
from mosaico.postgres.programs import packaged_binaries
from tests.integration.notifications.conftest import NotificationScenario
from tests.support.every_page import QUERIES, iter_page_routes
from tests.support.service import JSON, pair, run_mosaico
from tests.support.waiting import LIVENESS_S

# The path of each product, with the channel of its format; each token has its name.
PRODUCTS = {
    "discord": ("WEBHOOK", "api/webhooks/1187/{token}"),
    "zapier": ("WEBHOOK", "hooks/catch/4711/{token}"),
    "n8n": ("WEBHOOK", "webhook/run?key={token}"),
    # A query right after the server, without a path.
    "gateway": ("WEBHOOK", "?key={token}"),
    "mattermost": ("SLACK", "hooks/{token}"),
    "relay": ("TEAMS", "workflows/1/invoke?sig={token}"),
}
# The URL that runs an agent is a credential, too.
AGENT = "agent"


def token_of(product: str) -> str:
    return f"{product}QmVhcmVyU2VjcmV0{product[:4]}"


def url_of(scenario: NotificationScenario, product: str) -> str:
    _, path = PRODUCTS[product]
    return scenario.receiver.at(path.format(token=token_of(product)))


def run_url_of(scenario: NotificationScenario) -> str:
    return scenario.receiver.at(f"run/{token_of(AGENT)}")


@pytest.fixture
def notified(scenario: NotificationScenario, monkeypatch: pytest.MonkeyPatch) -> JSON:
    """The IDs of a service whose alert was sent to every product, each of which repeats the URL in its
    refusal.
    """
    monkeypatch.setattr(registry, "_own_hosts", {"127.0.0.1"})
    for product, (_, path) in PRODUCTS.items():
        refusal = f"cannot POST {url_of(scenario, product)}, no token {token_of(product)}"
        scenario.receiver.will(
            path.partition("?")[0].format(token=token_of(product)),
            # Again where the machine is slow.
            *[partial(Response, refusal, status_code=500)] * 100,
        )
    service = scenario.service
    service.create_agent()
    service.patch("/agents/agent-001", {"runUrl": run_url_of(scenario)})
    service.create_benchmark(metrics=["ROUGE"], measures=[{"name": "quality", "formula": "ROUGE"}])
    rule_ids = [
        service.post(
            "/alert-configs",
            {
                "name": f"always {channel}",
                "benchmarkId": "bench-001",
                "kpi": "quality",
                "condition": "LESS_THAN",
                "threshold": 2,
                "channels": [channel],
                "recipients": [
                    url_of(scenario, name) for name in PRODUCTS if PRODUCTS[name][0] == channel
                ],
            },
        )["id"]
        for channel in sorted({channel for channel, _ in PRODUCTS.values()})
    ]
    rule_id = rule_ids[-1]
    dataset_id = service.upload([pair(1)])["id"]
    run_id = service.complete_run(runName="run-1")["id"]
    scenario.work()
    delivery = service.get("/deliveries")["items"][0]
    alert_id = service.get("/alerts")["items"][0]["id"]
    return {
        "agentId": "agent-001", "benchmarkId": "bench-001", "runId": run_id, "traceId": "t-1",
        "alertConfigId": rule_id, "ruleId": rule_id, "alertId": alert_id, "datasetId": dataset_id,
        "incidentId": service.get("/incidents")["items"][0]["id"], "deliveryId": delivery["id"],
        "notificationId": delivery["notificationId"], "endpointId": delivery["endpointId"],
        "kpiId": service.get("/benchmarks/bench-001/kpis")["items"][0]["id"], "kpi": "quality",
    }  # fmt: skip


def fill(path: str, ids: JSON) -> str | None:
    """The path of a route with these IDs; None if it has a parameter without one."""
    names = re.findall(r"\{(\w+)(?::path)?\}", path)
    if not set(names) <= set(ids):
        return None
    return re.sub(r"\{(\w+)(?::path)?\}", lambda match: str(ids[match[1]]), path)


def iter_paths(scenario: NotificationScenario, ids: JSON) -> Iterator[str]:
    """Every address that is read: of the API, and of the pages."""
    document = scenario.service.client.get("/openapi.json").json()["paths"]
    templates = [path for path, methods in document.items() if "get" in methods]
    templates += [route.path for route in iter_page_routes()]
    queries = {
        "/api/v1/benchmark-runs/compare": f"baseline={ids['runId']}&candidate={ids['runId']}",
        "/compare": f"base={ids['runId']}&run={ids['runId']}",
    }
    for template in templates:
        path = fill(template, ids)
        # Streams do not end.
        if path is not None and not path.endswith("/events"):
            query = queries.get(template, QUERIES.get(template, ""))
            yield f"{path}?{query}" if query else path


def leaks_in(text: str) -> list[str]:
    """The products whose token is in a text, without its last four characters, which are shown."""
    names = (*PRODUCTS, AGENT)
    return [name for name in names if token_of(name)[:-4].casefold() in text.casefold()]


def test_webhook_urls__no_role_reads_their_tokens(
    scenario: NotificationScenario, notified: JSON, tmp_path: Path
) -> None:
    statuses, leaks = read_everything(scenario, notified)
    assert leaks == []
    # Most addresses were really read.
    assert statuses["api", 200] > 40, statuses
    assert statuses["page", 200] > 30, statuses
    require_hosts_in_lists(scenario)
    require_no_leak_in_files(scenario, notified, tmp_path / "report.html")


def read_everything(
    scenario: NotificationScenario, ids: JSON
) -> tuple[Counter[tuple[str, int]], list[str]]:
    """What an admin, whom nothing is hidden from that others see, gets for each address: the statuses of the API and of
    pages, and the tokens in them.
    """
    key = scenario.service.post("/keys", {"name": "an admin", "role": "admin"})["token"]
    url, statuses = scenario.service.client.base_url, Counter[tuple[str, int]]()
    leaks: list[str] = []
    with httpx.Client(base_url=url, trust_env=False, verify=False, timeout=LIVENESS_S) as client:
        login = client.post("/login", data={"key": key}, headers={"Sec-Fetch-Site": "same-origin"})
        # The session reads the API, too. Its cookie is for https only, which a client would obey.
        client.headers["Cookie"] = login.headers["set-cookie"].partition(";")[0]
        for path in iter_paths(scenario, ids):
            kind = "api" if path.startswith("/api") else "page"
            accepted = "application/json" if kind == "api" else "text/html"
            response = client.get(path, headers={"Accept": accepted})
            statuses[kind, response.status_code] += 1
            leaks += [f"{product} at {path}" for product in leaks_in(response.text)]
    return statuses, leaks


def require_hosts_in_lists(scenario: NotificationScenario) -> None:
    """Lists show the host and the last four characters."""
    service = scenario.service
    assert all(leaks_in(url_of(scenario, product)) == [product] for product in PRODUCTS)
    run_url = f"{scenario.receiver.url}/…{token_of(AGENT)[-4:]}"
    assert service.get("/agents/agent-001")["runUrl"] == run_url
    redacted_urls = {f"{scenario.receiver.url}/…{token_of(product)[-4:]}" for product in PRODUCTS}

    assert {item["recipient"] for item in service.get("/endpoints")["items"]} == redacted_urls
    assert {item["recipient"] for item in service.get("/deliveries")["items"]} == redacted_urls
    rules = service.get("/alert-configs")["items"]
    assert {recipient for rule in rules for recipient in rule["recipients"]} == redacted_urls
    details = [item["detail"] for item in service.get("/deliveries")["items"]]
    assert all(detail.startswith("HTTP 500: ") for detail in details), details


def require_no_leak_in_files(scenario: NotificationScenario, ids: JSON, report: Path) -> None:
    """A report and a dump of the database have no token."""
    words = ("runs", "report", ids["runId"], report)
    assert run_mosaico(scenario.service, *words).exit_code == 0
    url = scenario.service.resources.db.url
    dump = subprocess.run(
        [packaged_binaries().program("pg_dump"), "--no-owner"],
        env={**os.environ, **psql_environment(url)},
        capture_output=True,
        check=True,
        timeout=LIVENESS_S,
    ).stdout.decode()

    assert "quality" in dump
    assert (leaks_in(report.read_text()), leaks_in(dump)) == ([], [])
