"""Another distribution adds metrics and trace sources; its errors affect nothing else."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mosaico.core.registry import LoadedPlugin
from mosaico.metrics.registry import METRICS
from mosaico.traces.registry import TRACE_SOURCES
from tests.support.processes import ROOT
from tests.support.service import JSON, Service, pair
from tests.support.waiting import LIVENESS_S

pytestmark = pytest.mark.xdist_group("sample plugins")
ORIGIN = "mosaico-sample 2.5 (mosaico_sample."
BROKEN = {
    "absent": "No module named 'mosaico_sample.nowhere'",
    "broken": "RuntimeError: this module was never tried",
    "greedy": "ValueError: two metrics are named 'LATENCY'",
    "quitting": "SystemExit: the sample has had enough",
    "unfit": "InvalidMetric: the metric SAMPLE_UNFIT needs a MetricSpec",
}


def by_metric(service: Service, run: JSON) -> dict[str, JSON]:
    metrics = service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
    return {metric["metric"]: metric for metric in metrics}


def test_plugins__load_error_is_reported_once_and_registers_nothing(
    failed_plugins: list[LoadedPlugin],
) -> None:
    metrics = {failure.name: failure for failure in failed_plugins if failure.kind == "metric"}
    assert metrics.keys() == BROKEN.keys()
    for name, complaint in BROKEN.items():
        assert complaint in (metrics[name].error or "")
        assert metrics[name].origin.startswith(ORIGIN)
    sources = [failure for failure in failed_plugins if failure.kind == "trace source"]
    assert [failure.name for failure in sources] == ["unfit"]
    assert "must be a SourceSpec" in (sources[0].error or "")
    assert "SAMPLE_HALF" not in METRICS.names()  # registered before its plugin failed
    assert "SAMPLE_PART" not in METRICS.aliases
    assert METRICS.canonical_name("LATENCY") == "LATENCY_MS"


@pytest.mark.usefixtures("failed_plugins")
def test_plugins__loaded_ones_are_listed_with_built_in_ones() -> None:
    assert {"SAMPLE_BREVITY", "SAMPLE_HANGS", "ROUGE"} <= set(METRICS.names())
    assert METRICS.canonical_name("SAMPLE_SHORTNESS") == "SAMPLE_BREVITY"
    assert "sample-counting" in TRACE_SOURCES.names()
    origins = {entry.name: entry.origin for entry in METRICS.loaded if entry.error is None}
    assert origins["SAMPLE_BREVITY"] == f"{ORIGIN}metrics:register)"
    assert origins["ROUGE"] == "built-in"


def test_plugins_command__shows_origin_and_load_errors(installed_plugins: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mosaico.cli", "plugins", "--format", "json"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(installed_plugins)},
        capture_output=True,
        text=True,
        timeout=LIVENESS_S,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    entries = json.loads(done.stdout)["items"]
    failed = {entry["name"]: entry["error"] for entry in entries if entry["error"]}
    assert failed.keys() == BROKEN.keys()
    loaded = {entry["name"]: entry for entry in entries if not entry["error"]}
    assert loaded["SAMPLE_BREVITY"]["origin"].startswith(ORIGIN)
    assert loaded["sample-counting"]["kind"] == "trace source"


def test_metric_catalog__shows_metrics_and_broken_plugins(extended_service: Service) -> None:
    catalogue = extended_service.get("/metrics")
    metrics = {metric["key"]: metric for metric in catalogue["items"]}
    sample = metrics["SAMPLE_BREVITY"]
    assert sample["origin"] == f"{ORIGIN}metrics:register)"
    assert sample["aliases"] == ["SAMPLE_SHORTNESS"]
    own, *of_texts = sample["options"]
    assert own == {"name": "words", "default": 2, "choices": []}
    assert {option["name"] for option in of_texts} == {"stripThinking", "stripFences"}
    broken = {plugin["name"]: plugin["error"] for plugin in catalogue["broken"]}
    assert broken.keys() == BROKEN.keys()


def test_plugins__run_uses_source_and_metrics_of_another_distribution(
    extended_service: Service,
) -> None:
    # Twelve answers of three words on two pages: each is 2/3 as brief as it could be; a run needed
    # 12·2 of its 12·3 words.
    extended_service.create_agent()
    extended_service.create_benchmark(
        source="sample-counting",
        datasetRef="12",
        metrics=["SAMPLE_SHORTNESS"],
        measures=[{"name": "brevity", "formula": "SAMPLE_SHORTNESS + SAMPLE_BREVITY.max"}],
    )
    run = extended_service.complete_run()
    assert (run["status"], run["tracesTotal"]) == ("COMPLETED", 12)
    brevity = by_metric(extended_service, run)["SAMPLE_BREVITY"]
    assert brevity["n"] == 12
    assert brevity["mean"] == pytest.approx(2 / 3, abs=1e-15)
    assert brevity["version"].startswith("1+words=2 (mosaico-sample ")


def test_plugin_metric__run_value_comes_from_the_provider(extended_service: Service) -> None:
    # Answers of 1, 2 and 6 words: 1, 1 and 2/6 by themselves; the run needed 6 words of 9.
    extended_service.create_agent()
    extended_service.create_benchmark(metrics=["SAMPLE_BREVITY"])
    texts = ["a", "a b", "a b c d e f"]
    extended_service.upload([pair(number, output=text) for number, text in enumerate(texts)])
    run = extended_service.complete_run()
    brevity = by_metric(extended_service, run)["SAMPLE_BREVITY"]
    assert brevity["mean"] == 6 / 9
    assert brevity["min"] == 2 / 6
