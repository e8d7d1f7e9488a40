"""A Java client of the original system: its entities as Jackson writes them, with null for what it did not set."""

from typing import Any

from tests.support.service import JSON, Service

AGENT: JSON = {
    "id": "agent-001",
    "name": "QA agent",
    "description": None,
    "llangfuseProjectName": "qa",
    "llangfuseUrl": "https://cloud.langfuse.com",
    "llangfusePublicKey": "pk-lf-1",
    "llangfuseSecretKey": "sk-lf-1",
    "createdAt": None,
    "updatedAt": None,
}
KPI: JSON = {
    "id": None,
    "name": "quality",
    "description": None,
    "formula": "WEIGHTED_SUM(ROUGE:0.4, BLEU:0.3, ACCURACY:0.3)",
    "unit": None,
    "thresholdMin": 0.5,
    "thresholdMax": None,
    "createdAt": None,
}
BENCHMARK: JSON = {
    "id": "bench-001",
    "metadata": '{"name": "Quality Check"}',
    "datasetRef": "dataset-123",
    "runName": "quality-run",
    "taskDef": None,
    "features": None,
    "evaluates": [AGENT],
    "measures": [KPI],
    "metrics": None,
    "createdAt": None,
    "updatedAt": None,
}
SCHEDULE: JSON = {
    "id": "nightly",
    "name": "Nightly",
    "description": None,
    "benchmarkId": "bench-001",
    "agentId": "agent-001",
    "cronExpression": "0 0 2 * * *",
    "timezone": "Europe/Rome",
    "enabled": True,
    "autoDisableOnFailure": True,
    "maxConsecutiveFailures": 3,
    "consecutiveFailures": 0,
    "lastRunAt": None,
    "nextRunAt": None,
    "createdAt": None,
    "updatedAt": None,
}
ALERT: JSON = {
    "id": "low",
    "name": "Quality is low",
    "benchmarkId": "bench-001",
    "agentId": None,
    "metric": None,
    "kpi": "quality",
    "condition": "LESS_THAN",
    "threshold": 0.7,
    "severity": "CRITICAL",
    "channels": ["IN_APP"],
    "recipients": None,
    "enabled": True,
    "cooldownMinutes": 60,
    "createdAt": None,
    "updatedAt": None,
}
ENTITIES = (
    ("/agents", AGENT, {"name": "Renamed"}),
    ("/benchmarks", BENCHMARK, {"taskDef": "Answers"}),
    ("/schedule-configs", SCHEDULE, {"cronExpression": "0 0 3 * * *"}),
    ("/alert-configs", ALERT, {"threshold": 0.8}),
)


def java_instant(text: Any) -> Any:
    """`Instant.toString` of Java writes groups of three digits; Jackson without a zone writes local times."""
    return text.removesuffix("Z") if isinstance(text, str) and text.endswith("Z") else text


def test_original_client__creates_reads_changes_and_sends_back_its_entities(
    service: Service,
) -> None:
    for path, entity, change in ENTITIES:
        created = service.post(path, entity)
        assert created["id"] == entity["id"]
        address = f"{path}/{entity['id']}"
        # The client knows its own fields only, and drops the others when it reads.
        read = {
            name: java_instant(value)
            for name, value in service.get(address).items()
            if name in entity
        }
        secret = {key: value for key, value in entity.items() if "Secret" in key}
        changed = service.put(address, {**read, **secret, **change})
        assert {name: changed[name] for name in change} == change
        assert {name: value for name, value in changed.items() if name in read} == {
            **{name: created[name] for name in read},
            **change,
            "updatedAt": changed["updatedAt"],
            **({"nextRunAt": changed["nextRunAt"]} if "nextRunAt" in changed else {}),
        }
    benchmark = service.get("/benchmarks/bench-001")
    assert benchmark["evaluates"] == ["agent-001"]
    assert [kpi["name"] for kpi in benchmark["measures"]] == ["quality"]
    assert service.get("/agents/agent-001")["secretSet"] is True


def test_original_client__keeps_a_kpi_when_it_sends_back_the_measures(service: Service) -> None:
    service.post("/agents", AGENT)
    created = service.post("/benchmarks", BENCHMARK)
    [kpi] = created["measures"]
    changed = service.put("/benchmarks/bench-001", {**created, "measures": [{**kpi, "unit": "%"}]})
    [revised] = changed["measures"]
    assert (revised["id"], revised["unit"], revised["revision"]) == (kpi["id"], "%", 2)
