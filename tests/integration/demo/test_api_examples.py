"""The example of every request body is accepted as it stands, against the data of the demo."""

import re
from typing import Any

import pytest

from app.core.web.openapi_document import iter_operations, read_texts
from app.main import DESCRIPTIONS, EXAMPLES, create_app
from demo.tour import AGENT, BENCHMARK, DATASET, ONLY_INBOX, RULE, RUN_NAMES
from tests.support.service import JSON, Service, pair

# Bodies that a sender signs: docs/triggers.md shows them with their signature, in a test.
SIGNED = {"startRunsByWebhook", "receiveLangfuseEvent"}
# The demo reads no traces of production.
NEEDS_LANGFUSE = {"estimateRun"}
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
    document = create_app(demo.resources).openapi()
    values = {**read_texts(DESCRIPTIONS, EXAMPLES).parameter_examples, **_ids_of_demo(demo)}
    requests = [
        (operation["operationId"], method, path, _example(operation))
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if _example(operation) is not None
        and operation["operationId"] not in SIGNED | NEEDS_LANGFUSE
    ]
    assert len(requests) > 30
    requests.sort(
        key=lambda request: 0 if request[0].startswith(CREATIONS) else ORDER.get(request[0], 3)
    )
    for operation_id, method, path, written_example in requests:
        # The only example that names a run: its ID is another one in each demo.
        is_pin = operation_id == "pinBaseline"
        example = {"runId": values["goodRunId"]} if is_pin else written_example
        url = re.sub(r"\{(\w+)\}", lambda match: values[match[1]], path)
        response = demo.client.request(method, url, json=example)
        assert response.is_success, f"{operation_id}: {response.text}"
        if operation_id == "saveEndpoint":
            values["endpointId"] = response.json()["id"]
        elif operation_id == "createApiKey":
            values["keyId"] = response.json()["id"]


def test_api_examples__of_lines_and_results_are_accepted(demo: Service) -> None:
    document = create_app(demo.resources).openapi()
    examples = {
        operation["operationId"]: body["example"]
        for operation in iter_operations(document)
        for media_type, body in operation.get("requestBody", {}).get("content", {}).items()
        if media_type in {"application/x-ndjson", "application/json"} and "example" in body
    }
    for operation_id, path, media_type in (
        ("uploadTraces", "/local-datasets?name=tried&runName=one", "application/x-ndjson"),
        ("importResults", "/local-datasets/import?name=tried", "application/json"),
    ):
        example = examples[operation_id]
        body: Any = {"content": example} if isinstance(example, str) else {"json": example}
        headers = {"Content-Type": media_type}
        response = demo.send("POST", path, headers=headers, **body)
        assert response.is_success, f"{operation_id}: {response.text}"
    assert demo.client.post("/v1/traces", json=examples["exportSpans"]).is_success


def _example(operation: JSON) -> Any:
    content = operation.get("requestBody", {}).get("content", {})
    named = content.get("application/json", {})
    return named.get("example") if operation["operationId"] not in _OTHER_FORMATS else None


_OTHER_FORMATS = {"importResults", "exportSpans"}


def _ids_of_demo(demo: Service) -> dict[str, str]:
    """The IDs that a reader of Swagger copies from a list, and those that examples choose."""
    [alert] = demo.list_items("/alerts")
    bad_run, good_run = demo.list_items("/benchmark-runs")
    return {
        "runId": bad_run["id"],
        "goodRunId": good_run["id"],
        "alertId": alert["id"],
        "incidentId": alert["incidentId"],
        "kpiId": "balance",
        "scheduleId": "nightly",
        "silenceId": "maintenance",
    }
