"""Requests generated from the OpenAPI description, and the checks of every response."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import hypothesis
import requests
import schemathesis
import schemathesis.specs.openapi.checks  # registers the checks of OpenAPI
from hypothesis import HealthCheck, Phase, given
from hypothesis.strategies import SearchStrategy
from schemathesis import Case, SerializationContext
from schemathesis.checks import CHECKS as ALL_CHECKS
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.schemas import APIOperation

from tests.support.described_api import list_event_streams
from tests.support.people import create_person
from tests.support.service import Service, pair
from tests.support.waiting import LIVENESS_S

# Every check of schemathesis is used, also those of later versions, but these, each for its reason:
EXCLUDED = {
    "positive_data_acceptance": "formulas, cron expressions, recipients and storable texts follow rules"
    " that JSON Schema cannot express, so a document that fits the schema may be refused with 422",
}
# Only of requests that are sent as they were generated: schemathesis judges the generated body.
OF_GENERATED = {"negative_data_rejection"}
# Without a key, with a wrong one: of the first requests to an operation, whatever the others are.
OF_KEYS = {"ignored_auth"}
# Every request to these is valid: they have neither a body nor a parameter that could be wrong.
ALWAYS_VALID = {
    "GET /schemas/mosaico.json",
    "GET /healthz",
    "GET /readyz",
    "GET /problems/{code}",
    "GET /metrics",
}
# Refused before the route did anything.
TURNED_AWAY = {400, 401, 404, 405, 408, 413, 415, 422, 429}
# These routes check a signature, which a generated request does not have.
SIGNED = {
    "POST /api/v1/webhooks/benchmarks/{benchmarkId}/runs",
    "POST /api/v1/webhooks/langfuse",
}
# Operations that refuse every request here, and the reason.
REFUSING = {
    "GET /api/v1/annotations/summary": "takes a run or a benchmark, and not both, which a schema of parameters cannot"
    " say; tests/integration/annotations/test_annotations.py asks for each",
    "POST /api/v1/benchmark-runs/estimate": "asks a Langfuse server, which this service has not;"
    " tests/integration/langfuse/test_window_runs.py has one",
}
ORDER = ["post", "get", "patch", "put", "delete"]

Check = Callable[..., bool | None]
Operation = APIOperation[Any, Any, Any, Any]
Request = Case[Any]


def select_checks(omitted: Iterable[str] = ()) -> list[Check]:
    """The checks of schemathesis without the excluded ones."""
    omitted = {*EXCLUDED, *omitted}
    unknown = omitted - set(ALL_CHECKS.get_all_names())
    assert not unknown, f"schemathesis has no checks {unknown}"
    registered = cast("list[Check]", ALL_CHECKS.get_all())
    return [check for check in registered if check.__name__ not in omitted]


@dataclass
class Fuzzer:
    """Sends generated requests to a service; `seen` are the statuses of each operation.

    `known` are IDs and names that exist, by parameter or field name, or by operation and name;
    `bodies` are valid bodies, by operation.
    """

    service: Service
    known_ids: Mapping[str, str]
    bodies: Mapping[str, Any]
    statuses: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    session: requests.Session = field(default_factory=requests.Session)

    def operations(self) -> list[Operation]:
        """The described operations: changes last, and sub-resources before their parents."""
        document = self.service.client.get("/openapi.json").json()
        results = schemathesis.openapi.from_dict(document).get_all_operations()
        operations = []
        for result in results:
            # An operation that schemathesis cannot read is an error, not left out.
            assert isinstance(result, Ok), result
            operations.append(result.ok())
        # They end only when the client disconnects; other tests read them.
        endless = list_event_streams(document)
        operations = [operation for operation in operations if operation.label not in endless]
        return sorted(operations, key=_turn)

    def attack(self, operation: Operation, *, examples: int, seed: int) -> None:
        """Generate requests to one operation: with existing IDs, with existing IDs and a valid body if there is
        one, wrong ones, and of several examples also those that are entirely generated.
        """
        made_up = operation.as_strategy()
        changes: list[Callable[[Request], None]] = [self._name]
        changes += [self._write] if operation.label in self.bodies else []
        changes += [_leave] if examples > 1 else []
        for change in changes:
            omitted = set() if change is _leave else OF_GENERATED
            checks = select_checks(omitted if change == changes[0] else omitted | OF_KEYS)
            send = partial(self._send, checks=checks)
            _attack(made_up, send, change, examples=examples, seed=seed)
        if operation.label not in ALWAYS_VALID:
            # `as_strategy` alone makes valid requests only, which `negative_data_rejection` does not judge.
            wrong = operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)
            send = partial(self._send, checks=select_checks(OF_KEYS))
            _attack(wrong, send, _leave, examples=examples, seed=seed)

    def unreached(self) -> list[str]:
        """The operations that refused every request."""
        return [
            name
            for name, statuses in self.statuses.items()
            if name not in REFUSING
            and statuses <= TURNED_AWAY - ({401} if name in SIGNED else set())
        ]

    def _send(self, case: Request, checks: list[Check]) -> None:
        response = case.call(
            base_url=str(self.service.client.base_url),
            session=self.session,
            headers={"Authorization": self.service.client.headers["Authorization"]},
            timeout=LIVENESS_S,
        )
        self.statuses[case.operation.label].add(response.status_code)
        case.validate_response(response, checks=checks)

    def _name(self, case: Request) -> None:
        for part in (case.path_parameters, case.query, case.body):
            if isinstance(part, dict):
                part.update({name: self._known(case, name) or part[name] for name in part})
        # A generated ETag is never the current one: each change would end with 412.
        case.headers.pop("If-Match", None)

    def _write(self, case: Request) -> None:
        self._name(case)
        case.body = self.bodies[case.operation.label]

    def _known(self, case: Request, name: str) -> str | None:
        return self.known_ids.get(f"{case.operation.label} {name}") or self.known_ids.get(name)


def _attack(
    made_up: SearchStrategy[Request],
    send: Callable[[Request], None],
    change: Callable[[Request], None],
    *,
    examples: int,
    seed: int,
) -> None:
    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
        print_blob=False,
    )
    @given(case=made_up)
    def attack(case: Request) -> None:
        change(case)
        send(case)

    attack()


def _turn(operation: Operation) -> tuple[bool, int, int]:
    changes = operation.method not in ("post", "get")
    return changes, -operation.path.count("/") * changes, ORDER.index(operation.method)


def _leave(_: Request) -> None:
    """Keep the generated request unchanged."""


@schemathesis.serializer("application/x-ndjson", "text/csv")
def _lines(_: SerializationContext, value: Any) -> bytes:
    return json.dumps(value).encode()


def fuzzer_of(service: Service) -> Fuzzer:
    """A fuzzer with one resource of each kind, and valid bodies."""
    kpi = {"name": "quality", "formula": "ROUGE"}
    schedule = {
        "name": "nightly",
        "benchmarkId": "bench-001",
        "agentId": "agent-001",
        "cronExpression": "0 0 3 * * *",
    }
    endpoint = {"channel": "WEBHOOK", "recipient": "http://127.0.0.1:1/nobody"}
    rule = {
        "name": "always",
        "benchmarkId": "bench-001",
        "metric": "ROUGE",
        "condition": "LESS_THAN",
        # ROUGE is at most 1: the rule fires for every run, which gives an alert and an incident.
        "threshold": 2,
    }
    silence = {"matchers": {"name": "never"}, "endsAt": "2099-01-01T00:00:00Z"}
    secret = {"name": "langfuse", "secret": "lf-whsec_" + "a" * 32}
    service.create_agent()
    service.create_benchmark(
        metrics=["ROUGE"], evaluates=["agent-001"], triggers={"agentUpdated": True}
    )
    webhook = service.post("/benchmarks/bench-001/webhook-secrets", {})["id"]
    known_ids = {
        "agentId": "agent-001",
        "benchmarkId": "bench-001",
        "alertConfigId": service.post("/alert-configs", rule)["id"],
        "silenceId": service.post("/silences", silence)["id"],
        "kpiId": service.post("/benchmarks/bench-001/kpis", kpi)["id"],
        "datasetId": service.upload([pair(1, input="1+1?")])["id"],
        "setId": service.post("/datasets", {"name": "fuzzed"})["id"],
        "itemId": "i-1",
        "version": "1",
        "personId": create_person(service),
        "keyId": service.post("/keys", {"name": "spare", "role": "read"})["id"],
        "runId": service.complete_run(runName="run-1")["id"],
        "scheduleId": service.post("/schedule-configs", schedule)["id"],
        "secretId": service.post("/langfuse-secrets", secret)["id"],
        "DELETE /api/v1/benchmarks/{benchmarkId}/webhook-secrets/{secretId} secretId": webhook,
        "code": "not-found",
        "name": "support",
        "runName": "run-2",
        "traceId": "t-1",
    }
    for compare in (
        "GET /api/v1/benchmark-runs/compare",
        "GET /api/v1/benchmark-runs/compare/items",
    ):
        known_ids |= {f"{compare} {side}": known_ids["runId"] for side in ("baseline", "candidate")}
    for trend in ("GET /api/v1/kpi-history.svg", "GET /api/v1/kpi-history/trend"):
        known_ids |= {f"{trend} kpi": known_ids["kpiId"], f"{trend} timeZone": "UTC"}
    known_ids["alertId"] = service.get("/alerts", state="FIRING")["items"][0]["id"]
    known_ids["incidentId"] = service.get("/incidents")["items"][0]["id"]
    note = {"text": "A note of tests."}
    known_ids["noteId"] = service.post(f"/incidents/{known_ids['incidentId']}/notes", note)["id"]
    owned = {"file": "f", "path": "agents/a", "kind": "agent", "objectId": "agent-001"}
    known_ids["projectObjectId"] = service.post("/project-objects", owned)["id"]
    # Of a run of its own, which is not deleted before it.
    annotations = f"/benchmark-runs/{service.complete_run(runName='run-1')['id']}/annotations"
    judged = {"traceId": known_ids["traceId"], "judgement": "right"}
    known_ids["annotationId"] = service.post(annotations, judged)["id"]
    delivery = service.post("/notifications/test", endpoint)
    known_ids |= {"deliveryId": delivery["id"], "notificationId": delivery["notificationId"]}
    known_ids["endpointId"] = delivery["endpointId"]
    # A change starts the trigger, whose event has an ID.
    service.patch("/agents/agent-001", {"description": "flies"})
    service.work()
    known_ids["eventId"] = service.get("/trigger-events")["items"][0]["id"]
    task = {"id": "t", "category": "c", "description": "d", "prompt": "p", "expectations": []}
    bash_results = {
        "provider": "scripted",
        "model": "m",
        "timestamp": "2026-11-22T01:02:03Z",
        "max_turns": 10,
        "results": [{"task": task}],
    }
    trace_item = {"dataset": "fuzzed", "traceId": "t-1"}
    item = {"id": "i-1", "input": "1+1?", "expectedOutput": "2"}
    service.post(f"/datasets/{known_ids['setId']}/versions", {"baseVersion": 0, "items": [item]})
    bodies = {
        "POST /api/v1/alert-configs": rule,
        "PUT /api/v1/alert-configs/{alertConfigId}": rule,
        "PATCH /api/v1/alert-configs/{alertConfigId}": {"threshold": 1},
        "POST /api/v1/alert-configs/backtest": {"rule": rule, "agentId": "agent-001"},
        "POST /api/v1/alerts/{alertId}/ack": {"verdict": "noise"},
        "POST /api/v1/incidents/{incidentId}/assign": {"assignee": known_ids["personId"]},
        "POST /api/v1/silences": silence,
        "POST /api/v1/endpoints": endpoint,
        "POST /api/v1/notifications/test": endpoint,
        "POST /api/v1/endpoints/{endpointId}/secret": {"overlapSeconds": 60},
        "POST /api/v1/benchmarks/{benchmarkId}/kpis": {"name": "second", "formula": "ROUGE"},
        "PUT /api/v1/benchmarks/{benchmarkId}/kpis/{kpiId}": kpi,
        "POST /api/v1/schedule-configs": schedule,
        "PUT /api/v1/schedule-configs/{scheduleId}": schedule,
        "POST /api/v1/schedule-configs/preview": {"cronExpression": schedule["cronExpression"]},
        "PUT /api/v1/agents/{agentId}": {"name": "Heron"},
        "POST /api/v1/local-datasets": pair(2),
        "POST /api/v1/local-datasets/purge": {"itemId": "i-1"},
        "POST /api/v1/langfuse-secrets": secret,
        "POST /api/v1/datasets": {"name": "second"},
        "POST /api/v1/datasets/{setId}/versions": {"baseVersion": 1, "items": [item]},
        "POST /api/v1/datasets/import": item,
        "POST /api/v1/benchmark-runs/{runId}/dataset-items": trace_item,
        "POST /api/v1/local-datasets/{datasetId}/dataset-items": trace_item,
        "POST /api/v1/local-datasets/import": bash_results,
    }
    return Fuzzer(service, known_ids, bodies)
