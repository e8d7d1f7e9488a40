"""`make demo`: two benchmark runs from traces to KPI values, over HTTP, as a user would do it.

Starts the service on the usual data folder, registers an agent and a benchmark, uploads the
recorded traces of two nights, runs the benchmark on each, and prints what changed. Everything it
made stays, so that `make serve` shows it.
"""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from app.core.settings import Settings, load_settings

HERE = Path(__file__).parent
NIGHTS = ("night-1", "night-2")
DATASET = "pelican-handbook"
AGENT = {
    "id": "demo-agent",
    "name": "Pelican handbook agent",
    "description": "Answers questions about a cargo-bike rental from its handbook; demo/README.md.",
}
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
            "name": "answer quality",
            "formula": "WEIGHTED_SUM(ROUGE:0.5, BLEU:0.2, F1_SCORE:0.3)",
            "thresholdMin": 0.5,
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
STARTS_WITHIN_S = 120.0
STOPS_WITHIN_S = 30.0


class Night(NamedTuple):
    """A run and what it found, by name."""

    run: dict[str, Any]
    metrics: dict[str, Any]
    kpis: dict[str, Any]


class Api:
    """The service as the demo uses it."""

    def __init__(self, base_url: str, key: str) -> None:
        self._client = httpx.Client(
            base_url=f"{base_url}/api/v1",
            headers={"Authorization": f"Bearer {key}"},
            trust_env=False,
            timeout=60,
        )

    def get(self, path: str) -> dict[str, Any]:
        return _document(self._client.get(path))

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return _document(self._client.post(path, json=body))

    def put(self, collection: str, body: dict[str, Any]) -> None:
        """Create it, or write it again when an earlier demo did."""
        response = self._client.post(collection, json=body)
        if response.status_code == httpx.codes.CONFLICT:
            fields = {name: value for name, value in body.items() if name != "id"}
            response = self._client.put(f"{collection}/{body['id']}", json=fields)
        _document(response)

    def upload(self, night: str) -> dict[str, Any]:
        path = HERE / "traces" / f"{night}.jsonl"
        parameters = {"name": DATASET, "runName": night, "replace": "true"}
        response = self._client.post(
            "/local-datasets",
            params=parameters,
            content=path.read_bytes(),
            headers={"Content-Type": "application/x-ndjson"},
        )
        return _document(response)

    def follow(self, run_id: str) -> Iterator[dict[str, Any]]:
        """The run whenever it changes, until it has ended."""
        with self._client.stream("GET", f"/benchmark-runs/{run_id}/events", timeout=300) as events:
            for line in events.iter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))


def main() -> None:
    settings = load_settings()
    if _is_taken(settings.port):
        _fail(
            f"port {settings.port} is in use: stop what runs there, or choose another:"
            " MOSAICO_PORT=8090 make demo"
        )
    with _service() as base_url:
        api = Api(base_url, _admin_key(settings))
        print(f"The service runs at {base_url}\n")
        api.put("/agents", AGENT)
        api.put("/benchmarks", BENCHMARK)
        nights = [_run(api, night) for night in NIGHTS]
        _print_comparison(*nights)
        _print_next_steps(settings, base_url, nights[-1])


def _run(api: Api, night: str) -> Night:
    uploaded = api.upload(night)
    print(f"{night}: {uploaded['traceCount']} traces uploaded")
    run = api.post(
        "/benchmark-runs",
        {"benchmarkId": BENCHMARK["id"], "agentId": AGENT["id"], "runName": night},
    )
    started = time.monotonic()
    for run in api.follow(run["id"]):  # noqa: B020 - the run as it is by then
        total = run["tracesTotal"] or uploaded["traceCount"]
        elapsed = time.monotonic() - started
        print(f"  {elapsed:5.1f} s  {run['status']:<9}  {run['tracesProcessed']:>4}/{total} traces")
    if run["status"] != "COMPLETED":
        _fail(f"the run ended {run['status']}: {run['errorMessage']}")
    path = f"/benchmark-runs/{run['id']}"
    print(f"  {run['validity']}, coverage {run['coverage']:.1%}\n")
    return Night(
        run=run,
        metrics={row["metric"]: row for row in api.get(f"{path}/metrics")["items"]},
        kpis={row["name"]: row for row in api.get(f"{path}/kpis")["items"]},
    )


def _print_comparison(first: Night, second: Night) -> None:
    print(f"{'metric (mean)':<24}{NIGHTS[0]:>10}{NIGHTS[1]:>10}{'change':>10}")
    for name, row in first.metrics.items():
        _print_change(name, row["mean"], second.metrics[name]["mean"])
    print(f"\n{'KPI':<24}{NIGHTS[0]:>10}{NIGHTS[1]:>10}{'change':>10}")
    for name, row in first.kpis.items():
        _print_change(name, row["value"], second.kpis[name]["value"])
    quality = second.kpis["answer quality"]
    if quality["withinThresholds"] is False:
        print(
            f"\n{NIGHTS[1]} got worse: answer quality {quality['value']:.3f} is below"
            f" its threshold of {BENCHMARK['measures'][0]['thresholdMin']}."  # type: ignore[index]
        )


def _print_change(name: str, before: float | None, after: float | None) -> None:
    if before is None or after is None:
        print(f"{name:<24}{_number(before):>10}{_number(after):>10}{'–':>10}")
        return
    change = after - before
    mark = "▼" if change < 0 else "▲" if change > 0 else "="
    print(f"{name:<24}{before:>10.3f}{after:>10.3f}{mark:>3}{change:>+7.3f}")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _print_next_steps(settings: Settings, base_url: str, night: Night) -> None:
    key = "as set in MOSAICO_ADMIN_KEY" if settings.admin_key else settings.data_dir / "admin.key"
    print(
        f"""
Look around, on the same data:
  make serve            start the service again
  Swagger UI            {base_url}/swagger-ui.html
  admin key             {key}   (for Authorize)
  this run, by trace    GET {night.run["results"]}"""
    )


@contextmanager
def _service() -> Iterator[str]:
    """The service as `make serve` starts it; stopped, and waited for, at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "app.cli", "serve"], stderr=subprocess.PIPE, text=True
    )
    try:
        yield _wait_for_address(process)
    finally:
        process.terminate()
        process.wait(STOPS_WITHIN_S)


def _wait_for_address(process: "subprocess.Popen[str]") -> str:
    """The line with the address is the service's word that it is ready."""
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if line.startswith("MOSAICO runs at "):
            # What it says later must not fill the pipe.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return line.removeprefix("MOSAICO runs at ").strip()
    _fail("the service did not start:\n" + "".join(said))
    raise AssertionError


def _admin_key(settings: Settings) -> str:
    if settings.admin_key is not None:
        return settings.admin_key.get_secret_value()
    return (settings.data_dir / "admin.key").read_text().strip()


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _document(response: httpx.Response) -> dict[str, Any]:
    if not response.is_success:
        _fail(f"{response.request.method} {response.request.url}: {response.text}")
    document: dict[str, Any] = response.json()
    return document


def _fail(message: str) -> None:
    raise SystemExit(f"demo: {message}")


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    main()
