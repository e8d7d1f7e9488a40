"""The example of every request body is accepted as it stands, against the data of the demo."""

import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from standardwebhooks.webhooks import Webhook

from demo.tour import AGENT, BENCHMARK
from mosaico.core.web.openapi import iter_operations
from mosaico.main import RESPONSE_EXAMPLES
from tests.support.described_api import api_document
from tests.support.response_examples import example_requests, has_same_members, record, write_demo
from tests.support.service import Service


@pytest.fixture(scope="module")
def demo(module_service: Service) -> Service:
    """The data of the demo. The tests add to it, and change nothing."""
    write_demo(module_service)
    return module_service


def test_examples__are_accepted_as_they_stand_and_answered_as_stored(service: Service) -> None:
    """Each recorded answer fits its schema, and the stored examples have the members of the answers."""
    stored = json.loads(RESPONSE_EXAMPLES.read_text())
    assert len(example_requests()) > 30
    write_demo(service)
    # It fails with the first request that is refused.
    recorded = record(service)
    assert stored.keys() == recorded.keys(), "run: make generate"
    schemas = api_document()["components"]
    for name, example in recorded.items():
        if name in schemas["schemas"]:
            reference = {"$ref": f"#/components/schemas/{name}", "components": schemas}
            Draft202012Validator(reference).validate(example)
        assert has_same_members(stored[name], example), f"{name}; run: make generate"


def test_api_examples__pin_the_good_run(demo: Service) -> None:
    bad_run, good_run = demo.list_items("/benchmark-runs", status="COMPLETED")
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
