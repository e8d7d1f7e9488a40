"""The example of every request body is accepted as it stands, against the data of the demo."""

import hashlib
import hmac
import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from demo.tour import AGENT, BENCHMARK, DATASET, ONLY_INBOX, RULE, RUN_NAMES
from mosaico.core.web.openapi import iter_operations, read_texts
from mosaico.main import DESCRIPTIONS, EXAMPLES
from tests.support.described_api import api_document
from tests.support.service import JSON, Service, pair

# Bodies that a sender signs; Swagger cannot.
SIGNED = {"startRunsByWebhook", "receiveLangfuseEvent"}
# Creations come first. The incident ends when its rule changes or its run is accepted, and a replaced
# benchmark has no longer the KPI of other examples.
CREATIONS = ("create", "save", "start")
ORDER = {"acknowledgeAlert": 1, "acceptIncident": 2, "replaceBenchmark": 4}


@pytest.fixture
def demo(service: Service) -> Service:
    """What `make demo` leaves behind, with fewer traces: two runs, the second one worse, and an alert."""
    service.post("/agents", AGENT)
    service.post("/benchmarks", BENCHMARK)
    service.post("/alert-configs", {**RULE, **ONLY_INBOX})
    for run_name, answer in zip(RUN_NAMES, ("a b c d", "a b x y"), strict=True):
        traces = [pair(number, output=answer) for number in range(30)]
        service.upload(traces, name=DATASET, run_name=run_name)
        service.complete_run(benchmarkId=BENCHMARK["id"], agentId=AGENT["id"], runName=run_name)
    return service


def test_api_examples__are_accepted_as_they_stand(demo: Service) -> None:
    document = api_document()
    values = {**read_texts(DESCRIPTIONS, EXAMPLES).parameter_examples, **_ids_of_demo(demo)}
    requests = [
        (operation["operationId"], method, path, _example(operation))
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if _example(operation) is not None and operation["operationId"] not in SIGNED
    ]
    assert len(requests) > 30
    requests.sort(
        key=lambda request: 0 if request[0].startswith(CREATIONS) else ORDER.get(request[0], 3)
    )
    for operation_id, method, path, example in requests:
        url = re.sub(r"\{(\w+)\}", lambda match: values[match[1]], path)
        response = demo.client.request(method, url, json=example)
        assert response.is_success, f"{operation_id}: {response.text}"
        if operation_id == "saveEndpoint":
            values["endpointId"] = response.json()["id"]
        elif operation_id == "createApiKey":
            values["keyId"] = response.json()["id"]


def test_api_examples__pin_the_good_run(demo: Service) -> None:
    bad_run, good_run = demo.list_items("/benchmark-runs")
    pinned = demo.put(f"/benchmarks/{BENCHMARK['id']}/baseline", {"runId": "latest"})
    assert bad_run["verdict"]["verdict"] == "REGRESSED"
    assert (pinned["runId"], pinned["agentId"]) == (good_run["id"], AGENT["id"])


@pytest.mark.parametrize(
    ("operation_id", "path"),
    [
        ("uploadTraces", "/api/v1/local-datasets?name=tried&runName=one"),
        ("importResults", "/api/v1/local-datasets/import?name=tried"),
        ("exportSpans", "/v1/traces"),
        ("exportLogs", "/v1/logs"),
    ],
)
def test_api_examples__of_every_media_type_are_accepted(
    demo: Service, operation_id: str, path: str
) -> None:
    for number, (media_type, example) in enumerate(_examples(operation_id).items()):
        content = example if isinstance(example, str) else json.dumps(example)
        url = path.replace("tried", f"tried-{number}")
        headers = {"Content-Type": media_type}
        response = demo.client.post(url, content=content.encode(), headers=headers)
        assert response.is_success, f"{media_type}: {response.text}"


def test_api_examples__of_signed_bodies_are_accepted_with_their_signature(demo: Service) -> None:
    secret = demo.post(f"/benchmarks/{BENCHMARK['id']}/webhook-secrets", {})["secret"]
    [example] = _examples("startRunsByWebhook").values()
    body, now = json.dumps(example), datetime.now(UTC)
    headers = {
        "webhook-id": "call-1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign("call-1", now, body),
    }
    path = f"/api/v1/webhooks/benchmarks/{BENCHMARK['id']}/runs"
    assert demo.client.post(path, content=body, headers=headers).status_code == 202

    [secret_body] = _examples("createLangfuseSecret").values()
    demo.post("/langfuse-secrets", secret_body)
    [event] = _examples("receiveLangfuseEvent").values()
    signed = f"{int(now.timestamp())}.{json.dumps(event)}".encode()
    digest = hmac.new(secret_body["secret"].encode(), signed, hashlib.sha256).hexdigest()
    headers = {"x-langfuse-signature": f"t={int(now.timestamp())},v1={digest}"}
    url = "/api/v1/webhooks/langfuse"
    response = demo.client.post(url, content=json.dumps(event), headers=headers)
    assert (response.status_code, response.json()["type"]) == (202, "prompt-version")


def _examples(operation_id: str) -> dict[str, Any]:
    """The examples of an operation by media type."""
    [operation] = [
        operation
        for operation in iter_operations(api_document())
        if operation["operationId"] == operation_id
    ]
    content = operation["requestBody"]["content"]
    return {media_type: body["example"] for media_type, body in content.items()}


def _example(operation: JSON) -> Any:
    content = operation.get("requestBody", {}).get("content", {})
    named = content.get("application/json", {})
    return named.get("example") if operation["operationId"] not in _OTHER_FORMATS else None


_OTHER_FORMATS = {"importResults", "exportSpans"}


def _ids_of_demo(demo: Service) -> dict[str, str]:
    """The IDs that a reader of Swagger copies from a list, and those that examples choose."""
    [alert] = demo.list_items("/alerts")
    bad_run, _ = demo.list_items("/benchmark-runs")
    return {
        "runId": bad_run["id"],
        "alertId": alert["id"],
        "incidentId": alert["incidentId"],
        "kpiId": "balance",
        "scheduleId": "nightly",
        "silenceId": "maintenance",
    }
