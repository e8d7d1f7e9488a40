"""The demo over HTTP, as a user would do it: two runs, their comparison, and the alert."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from demo.receiver import Receiver, is_signed, receiving
from mosaico.comparison.change_text import format_headline, format_value
from mosaico.kpis.verdict_types import ValueVerdict

HERE = Path(__file__).parent
RUN_NAMES = ("run-1", "run-2")
DATASET = "pelican-handbook"
AGENT = {
    "id": "demo-agent",
    "name": "Pelican handbook agent",
    "description": "Answers questions about a cargo-bike rental from its handbook; demo/README.md.",
}
KPI = "answer quality"
LOWEST_QUALITY = 0.5
BENCHMARK = {
    "id": "demo-benchmark",
    "metadata": {"name": "Handbook questions", "sample": True},
    "datasetRef": DATASET,
    "evaluates": [AGENT["id"]],
    "metrics": [
        "ROUGE", "ROUGE_1", "ROUGE_2", "BLEU", "ACCURACY", "PRECISION", "RECALL", "F1_SCORE",
    ],
    "measures": [
        {
            "name": KPI,
            "formula": "WEIGHTED_SUM(ROUGE:0.5, BLEU:0.2, F1_SCORE:0.3)",
            "thresholdMin": LOWEST_QUALITY,
        },
        {"name": "weakest metric", "formula": "MIN(ROUGE, BLEU, F1_SCORE)"},
        {"name": "good enough", "formula": "THRESHOLD(F1_SCORE, 0.6)"},
        {"name": "grounded", "formula": 'SCORE["Groundedness"]'},
        {
            "name": "answer balance",
            "formula": "IF PRECISION > 0.9 * RECALL THEN F1_SCORE ELSE PRECISION",
        },
    ],
}  # fmt: skip
# The first good run resolves the alert, so that a repeated demo shows the same result.
RULE = {
    "id": "demo-rule",
    "name": "answer quality falls",
    "benchmarkId": BENCHMARK["id"],
    "agentId": AGENT["id"],
    "kpi": KPI,
    "condition": "PERCENTAGE_DROP",
    "threshold": 10,
    "severity": "CRITICAL",
    "keepFiringForRuns": 0,
}
# The metric whose change is counted item by item.
ITEM_METRIC = "ROUGE"
ONLY_INBOX: dict[str, Any] = {"channels": ["IN_APP"], "recipients": []}


class DemoRun(NamedTuple):
    """A run, and its KPIs by name."""

    run: dict[str, Any]
    kpis: dict[str, Any]


class Api:
    """A client for the requests of the demo."""

    def __init__(self, base_url: str, key: str) -> None:
        self._client = httpx.Client(
            base_url=f"{base_url}/api/v1",
            headers={"Authorization": f"Bearer {key}"},
            trust_env=False,
            timeout=60,
        )

    def close(self) -> None:
        self._client.close()

    def get(self, path: str, **parameters: str) -> dict[str, Any]:
        return _document(self._client.get(path, params=parameters))

    def list(self, path: str) -> list[dict[str, Any]]:
        """The items of all pages."""
        page = self.get(path)
        items: list[dict[str, Any]] = page["items"]
        while page["nextCursor"] is not None:
            page = self.get(path, cursor=page["nextCursor"])
            items += page["items"]
        return items

    def get_text(self, path: str) -> str:
        return self._client.get(path).raise_for_status().text

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return _document(self._client.post(path, json=body))

    def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return _document(self._client.patch(path, json=body))

    def put(self, collection: str, body: dict[str, Any]) -> None:
        """Create a resource, or replace it if an earlier demo created it."""
        response = self._client.post(collection, json=body)
        if response.status_code == httpx.codes.CONFLICT:
            fields = {name: value for name, value in body.items() if name != "id"}
            response = self._client.put(f"{collection}/{body['id']}", json=fields)
        _document(response)

    def upload(self, run_name: str) -> dict[str, Any]:
        path = HERE / "traces" / f"{run_name}.jsonl"
        parameters = {"name": DATASET, "runName": run_name, "replace": "true"}
        response = self._client.post(
            "/local-datasets",
            params=parameters,
            content=path.read_bytes(),
            headers={"Content-Type": "application/x-ndjson"},
        )
        return _document(response)

    def follow(self, run_id: str) -> Iterator[dict[str, Any]]:
        """Yield the run after every change until it has ended."""
        with self._client.stream("GET", f"/benchmark-runs/{run_id}/events", timeout=300) as events:
            for line in events.iter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))


def show(api: Api) -> DemoRun:
    """Run the benchmark on both trace files and tell what happened in a line each; returns run 2.

    Afterwards the alert rule notifies the inbox only, because the receiver ends with the demo.
    """
    api.put("/agents", AGENT)
    api.put("/benchmarks", BENCHMARK)
    with receiving() as receiver:
        api.put("/alert-configs", {**RULE, "channels": ["WEBHOOK"], "recipients": [receiver.url]})
        secret = _create_secret(api, receiver)
        first, second = (_run(api, run_name) for run_name in RUN_NAMES)
        _print_verdict(second)
        _print_items(api, first, second)
        _print_alert(api, second, receiver, secret)
        api.patch(f"/alert-configs/{RULE['id']}", ONLY_INBOX)
    return second


def _create_secret(api: Api, receiver: Receiver) -> str:
    endpoint = api.post("/endpoints", {"channel": "WEBHOOK", "recipient": receiver.url})
    return str(api.post(f"/endpoints/{endpoint['id']}/secret", {})["secret"])


def _run(api: Api, run_name: str) -> DemoRun:
    uploaded = api.upload(run_name)
    run = api.post(
        "/benchmark-runs",
        {"benchmarkId": BENCHMARK["id"], "agentId": AGENT["id"], "runName": run_name},
    )
    started = time.monotonic()
    *_, run = api.follow(run["id"])
    if run["status"] != "COMPLETED":
        fail(f"the run ended {run['status']}: {run['errorMessage']}")
    elapsed = time.monotonic() - started
    print(
        f"{run_name}: {uploaded['traceCount']} answers of the {AGENT['name']} measured in"
        f" {elapsed:.1f} s, {run['validity']}"
    )
    kpis = api.get(f"/benchmark-runs/{run['id']}/kpis")["items"]
    return DemoRun(run=run, kpis={row["name"]: row for row in kpis})


def _print_verdict(second: DemoRun) -> None:
    quality = ValueVerdict.model_validate(second.kpis[KPI]["verdict"])
    print(f"{quality.verdict}: {KPI} {format_headline(quality)}")


def _print_items(api: Api, first: DemoRun, second: DemoRun) -> None:
    """How many items have a lower value of the metric than before."""
    before, after = (_values_by_item(api, demo_run) for demo_run in (first, second))
    changes = [after[item] - before[item] for item in after if item in before]
    fell, rose = sum(change < 0 for change in changes), sum(change > 0 for change in changes)
    print(
        f"{fell} of {second.run['tracesTotal']} items fell and {rose} rose in {ITEM_METRIC};"
        f" {second.run['tracesTotal'] - len(changes)} were not measured, which is no drop"
    )


def _values_by_item(api: Api, demo_run: DemoRun) -> dict[str, float]:
    rows = api.list(f"/benchmark-runs/{demo_run.run['id']}/results")
    values = {row["itemId"]: row["values"].get(ITEM_METRIC) for row in rows}
    return {item: value for item, value in values.items() if value is not None}


def _print_alert(api: Api, demo_run: DemoRun, receiver: Receiver, secret: str) -> None:
    """Print the alert of a run: state of its rule, inbox message, and received webhook."""
    [state] = api.get(f"/alert-configs/{RULE['id']}")["states"]
    alerts = api.get("/alerts", runId=demo_run.run["id"], state="FIRING")["items"]
    if not alerts:
        fail(f"the alert rule {RULE['name']!r} did not fire; its state is {state['state']}")
    [alert] = alerts
    message = api.get(f"/notifications/{alert['notificationId']}")
    trace = alert["contributingTraces"][0]
    print(
        f"""\
alert rule "{alert["name"]}" is {state["state"]}; its worst trace is {trace["traceId"]}, {trace["metric"]} {format_value(trace["before"])} → {format_value(trace["value"])}
message: {message["severity"]}, {message["title"]}
webhook: {_describe_webhook(api, receiver, secret, message["id"])}"""
    )


def _describe_webhook(api: Api, receiver: Receiver, secret: str, notification_id: str) -> str:
    """Wait for the webhook of a message and verify it; webhooks of other messages are skipped."""
    while (call := receiver.next_call()) is not None:
        if not is_signed(secret, call):
            fail(f"the webhook {call.id} is not signed with the secret of its endpoint")
        if call.id == notification_id:
            return f'"{call.document()["type"]}" was received at {receiver.url}; its signature is valid'
    [delivery] = api.get("/deliveries", notificationId=notification_id)["items"]
    fail(f"the webhook did not arrive ({delivery['status']}): {delivery['detail']}")
    raise AssertionError


def _document(response: httpx.Response) -> dict[str, Any]:
    if not response.is_success:
        fail(f"{response.request.method} {response.request.url}: {response.text}")
    document: dict[str, Any] = response.json()
    return document


def fail(message: str) -> None:
    raise SystemExit(f"demo: {message}")
