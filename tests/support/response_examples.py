"""The examples of responses in the OpenAPI description.

They are answers of a service with the data of the demo, by the schema of the answer. Of a list the first item is kept,
and new secrets are cut.
"""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from standardwebhooks.webhooks import Webhook

from demo.tour import AGENT, BENCHMARK, DATASET, ONLY_INBOX, RULE, RUN_NAMES
from mosaico.core.web.openapi import cut_page, read_texts, schema_of_response
from mosaico.main import DESCRIPTIONS, EXAMPLES, RESPONSE_EXAMPLES
from mosaico.traces.otel.router import TRACES_PATH
from tests.support.described_api import api_document
from tests.support.people import create_person
from tests.support.service import JSON, Service, pair

# Bodies that a sender signs; Swagger cannot.
SIGNED: Final = frozenset({"startRunsByWebhook", "receiveLangfuseEvent"})
_OTHER_FORMATS: Final = frozenset({"importResults", "exportSpans"})
# Creations come first. The incident ends when its rule changes or its run is accepted, and a replaced
# benchmark has no longer the KPI of other examples.
_CREATIONS: Final = ("create", "save", "start")
_ORDER: Final = {"acknowledgeAlert": 1, "acceptIncident": 2, "replaceBenchmark": 4}
# Answers without a body, or that do not end.
_STREAMS: Final = frozenset({"followRun", "followActivity", "followInbox"})
_SHOWN_CHARS: Final = 12


class ExampleRequest(NamedTuple):
    """A request of the description, with its example as body."""

    operation_id: str
    method: str
    path: str
    body: Any


class Answer(NamedTuple):
    """A successful answer in JSON, and its operation in the description."""

    operation: JSON
    status: int
    body: Any


def write_demo(service: Service) -> None:
    """What `make demo` leaves behind, with fewer traces: two runs, the second one worse, and an alert; and a person."""
    create_person(service)
    service.post("/agents", AGENT)
    service.post("/benchmarks", BENCHMARK)
    service.post("/alert-configs", {**RULE, **ONLY_INBOX})
    for run_name, answer in zip(RUN_NAMES, ("a b c d", "a b x y"), strict=True):
        traces = [
            pair(number, output=answer, input="Which letters?", tags=["category:letters"])
            for number in range(30)
        ]
        service.upload(traces, name=DATASET, run_name=run_name)
        service.complete_run(benchmarkId=BENCHMARK["id"], agentId=AGENT["id"], runName=run_name)
    _create_dataset(service)


def _create_dataset(service: Service) -> None:
    """A dataset whose items live here, with one version."""
    dataset = service.post("/datasets", {"name": "demo-questions"})
    item = {"id": "q1", "input": "Which letters?", "expectedOutput": "a b c d"}
    service.post(f"/datasets/{dataset['id']}/versions", {"baseVersion": 0, "items": [item]})


def example_requests() -> list[ExampleRequest]:
    """The requests with an example that need no signature, in an order in which each is accepted."""
    requests = [
        ExampleRequest(operation["operationId"], method, path, example)
        for path, methods in api_document()["paths"].items()
        for method, operation in methods.items()
        if (example := _example(operation)) is not None and operation["operationId"] not in SIGNED
    ]
    return sorted(requests, key=_rank)


def send_examples(demo: Service) -> Iterator[Answer]:
    """Send each example; yields its answer, which is successful, or fails with it."""
    values = {
        **read_texts(DESCRIPTIONS, EXAMPLES, RESPONSE_EXAMPLES).parameter_examples,
        **_ids_of_demo(demo),
    }
    created = {"saveEndpoint": "endpointId", "createApiKey": "keyId"}
    for request in example_requests():
        answer = _request(
            demo, request.operation_id, request.method, request.path, values, request.body
        )
        yield answer
        if request.operation_id in created:
            values[created[request.operation_id]] = answer.body["id"]


def read_answers(demo: Service) -> Iterator[Answer]:
    """The answers of all operations that read, except streams."""
    values = {
        **read_texts(DESCRIPTIONS, EXAMPLES, RESPONSE_EXAMPLES).parameter_examples,
        **_ids_of_demo(demo),
        **_ids_of_lists(demo),
    }
    for path, methods in api_document()["paths"].items():
        operation = methods.get("get")
        if (
            operation is not None
            and schema_of_response(operation) is not None
            and operation["operationId"] not in _STREAMS
        ):
            yield _request(demo, operation["operationId"], "get", path, values, None)


def record(demo: Service) -> dict[str, Any]:
    """The examples of one service by schema, or by operation where the answer has no schema of its own."""
    examples: dict[str, Any] = {}
    answers = (_other_answers, send_examples, _answers_about_examples, read_answers)
    for answer in (answer for source in answers for answer in source(demo)):
        name = schema_of_response(answer.operation)
        if name is None:
            continue
        name, example = cut_page(name, answer.body)
        # The answer of a list may have no item; a later one may.
        if example is not None and name not in examples:
            examples[name] = _shorten(example)
    return dict(sorted(examples.items()))


def updated_examples(stored: Mapping[str, Any], recorded: Mapping[str, Any]) -> dict[str, Any]:
    """The recorded examples; a stored one with the same members stays, because each recording has other IDs and times."""
    return {
        name: stored[name]
        if name in stored and has_same_members(stored[name], example)
        else example
        for name, example in recorded.items()
    }


def has_same_members(example: Any, other: Any) -> bool:
    """Whether two JSON objects have members of the same names; true for two values of other kinds."""
    return bool(_members_of(example) == _members_of(other))


def _members_of(value: Any) -> Any:
    return sorted(value) if isinstance(value, dict) else None


def format_examples(examples: Mapping[str, Any]) -> str:
    """The text of the file: one schema per line, so that a change shows what it changes."""
    lines = (
        f"  {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}"
        for name, value in examples.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _rank(request: ExampleRequest) -> int:
    if request.operation_id.startswith(_CREATIONS):
        return 0
    return _ORDER.get(request.operation_id, 3)


def _example(operation: JSON) -> Any:
    content = operation.get("requestBody", {}).get("content", {})
    if operation["operationId"] in _OTHER_FORMATS:
        return None
    return content.get("application/json", {}).get("example")


def _ids_of_demo(demo: Service) -> dict[str, str]:
    """The IDs that a reader of Swagger copies from a list, and those that examples choose."""
    alert = demo.list_items("/alerts")[-1]
    bad_run = _run_of_demo(demo, RUN_NAMES[1])
    return {
        "runId": bad_run["id"],
        "alertId": alert["id"],
        "incidentId": alert["incidentId"],
        "kpiId": "balance",
        "scheduleId": "nightly",
        "silenceId": "maintenance",
        "personId": demo.list_items("/people")[0]["id"],
        "setId": demo.list_items("/datasets", name="demo-questions")[0]["id"],
        "datasetId": demo.list_items("/local-datasets")[0]["id"],
    }


def _ids_of_lists(demo: Service) -> dict[str, str]:
    """The IDs of the first items of the lists that examples do not name."""
    run = _run_of_demo(demo, RUN_NAMES[1])
    [result, *_] = demo.list_items(f"/benchmark-runs/{run['id']}/results")
    lists = {
        "notificationId": "/notifications",
        "deliveryId": "/deliveries",
        "endpointId": "/endpoints",
        "eventId": "/trigger-events",
        "keyId": "/keys",
        "noteId": "/notes",
        "annotationId": "/annotations",
    }
    first = {name: demo.list_items(path)[0]["id"] for name, path in lists.items()}
    [kpi, *_] = demo.get(f"/benchmarks/{BENCHMARK['id']}/kpis")["items"]
    return {
        **first,
        "version": "1",
        "kpiId": kpi["id"],
        "traceId": result["traceId"],
        "code": "agent-not-found",
    }


def _run_of_demo(demo: Service, run_name: str) -> JSON:
    """The completed run of an upload; examples start others."""
    runs = demo.list_items("/benchmark-runs", status="COMPLETED")
    return next(run for run in reversed(runs) if run["runName"] == run_name)


def _parameters(demo: Service, operation_id: str) -> dict[str, Any]:
    """The query parameters that an operation needs for an answer with content."""
    if operation_id in ("compareRuns", "listComparedItems"):
        good, bad = (_run_of_demo(demo, name) for name in RUN_NAMES)
        return {"candidate": bad["id"], "baseline": good["id"]}
    if operation_id == "getKpiTrend":
        [kpi, *_] = demo.get(f"/benchmarks/{BENCHMARK['id']}/kpis")["items"]
        return {"benchmarkId": BENCHMARK["id"], "agentId": AGENT["id"], "kpi": kpi["id"]}
    if operation_id == "listNights":
        run = _run_of_demo(demo, RUN_NAMES[1])
        return {"itemId": demo.list_items(f"/benchmark-runs/{run['id']}/results")[0]["itemId"]}
    fixed: dict[str, dict[str, Any]] = {
        "listItemStates": {"itemId": "q1"},
        "listAgentVersions": {"benchmarkId": BENCHMARK["id"]},
        "summarizeAnnotations": {"benchmarkId": BENCHMARK["id"]},
        "searchByName": {"text": AGENT["name"][:4]},
    }
    return fixed.get(operation_id, {})


def _request(
    demo: Service, operation_id: str, method: str, path: str, values: Mapping[str, str], body: Any
) -> Answer:
    url = re.sub(r"\{(\w+)\}", lambda match: quote(values[match[1]], safe=""), path)
    parameters = _parameters(demo, operation_id)
    response = demo.client.request(method, url, json=body, params=parameters)
    assert response.is_success, f"{operation_id}: {response.text}"
    operation = api_document()["paths"][path][method]
    has_json = response.headers.get("content-type", "").startswith("application/json")
    return Answer(operation, response.status_code, response.json() if has_json else None)


def _other_answers(demo: Service) -> Iterator[Answer]:
    """Answers to requests without an example, and to a signed one."""
    values = {
        "agentId": str(AGENT["id"]),
        "benchmarkId": str(BENCHMARK["id"]),
        "alertConfigId": str(RULE["id"]),
    }
    for operation_id, path in (
        ("checkAgent", "/api/v1/agents/{agentId}/check"),
        ("testAlertConfig", "/api/v1/alert-configs/{alertConfigId}/test"),
        ("checkSystem", "/api/v1/overview/system/checks"),
    ):
        yield _request(demo, operation_id, "post", path, values, None)
    secret = demo.post(f"/benchmarks/{BENCHMARK['id']}/webhook-secrets", {})["secret"]
    now, body = datetime.now(UTC), json.dumps({"runName": RUN_NAMES[0]})
    headers = {
        "webhook-id": "call-1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign("call-1", now, body),
    }
    path = "/api/v1/webhooks/benchmarks/{benchmarkId}/runs"
    response = demo.client.post(path.format(**values), content=body, headers=headers)
    assert response.status_code == 202, response.text
    yield Answer(api_document()["paths"][path]["post"], 202, response.json())


def _answers_about_examples(demo: Service) -> Iterator[Answer]:
    """Answers to requests that need what the examples created."""
    path = "/api/v1/schedule-configs/{scheduleId}/trigger"
    yield _request(demo, "triggerSchedule", "post", path, {"scheduleId": "nightly"}, None)
    path = "/api/v1/notifications/read-all"
    yield _request(demo, "readAllNotifications", "post", path, {}, None)
    spans = api_document()["paths"][TRACES_PATH]["post"]["requestBody"]["content"]
    yield _request(
        demo, "exportSpans", "post", TRACES_PATH, {}, spans["application/json"]["example"]
    )


def _shorten(value: Any, name: str = "") -> Any:
    """An answer with one item of each list, and without the end of new secrets."""
    if isinstance(value, dict):
        return {key: _shorten(member, key) for key, member in value.items()}
    if isinstance(value, list):
        return [_shorten(member) for member in value[:1]]
    if name == "platform":
        return "Linux"  # not that of the machine that wrote the file
    is_secret = name in ("secret", "token") and isinstance(value, str)
    return f"{value[:_SHOWN_CHARS]}…" if is_secret else value
