"""The alert rules for Prometheus: their metrics exist, and Prometheus itself evaluates them."""

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
import yaml

from tests.integration.docs.test_examples import blocks
from tests.support.service import JSON, Service, pair

RULES = Path("docs/prometheus/mosaico.rules.yml").resolve()
ALERTS = {
    rule["alert"]: rule["expr"] for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
}
ADVICE = "Prometheus is not installed: apt install prometheus"
REQUESTS = "mosaico_http_requests_total"
SECONDS = "mosaico_http_request_duration_seconds_bucket"
WAITING = 'mosaico_queue_oldest_job_age_seconds{job="mosaico",queue="runs",status="todo"}'
RUNNING = WAITING.replace("todo", "doing")

# Values per minute, in the notation of promtool, of a service in which nothing is wrong.
HEALTHY = {
    'up{job="mosaico"}': "1x40",
    'mosaico_database_up{job="mosaico"}': "1x40",
    WAITING: "899x40",
    # A job that runs for hours does not wait.
    RUNNING: "9000x40",
    f'{REQUESTS}{{job="mosaico",status="200"}}': "0+96x40",
    f'{REQUESTS}{{job="mosaico",status="503"}}': "0+4x40",
    f'{SECONDS}{{job="mosaico",le="2.5"}}': "0+96x40",
    f'{SECONDS}{{job="mosaico",le="5"}}': "0+100x40",
    f'{SECONDS}{{job="mosaico",le="+Inf"}}': "0+100x40",
}
# What is wrong, and the minutes after which its alert fires.
FAULTS = {
    "MosaicoDown": ({'up{job="mosaico"}': "0x40"}, 2),
    "MosaicoDatabaseDown": ({'mosaico_database_up{job="mosaico"}': "0x40"}, 1),
    # 900 s is the limit: above it from the first minute on, and five more minutes.
    "MosaicoJobsWait": ({WAITING: "901+60x40"}, 5),
    "MosaicoErrors": ({f'{REQUESTS}{{job="mosaico",status="503"}}': "0+6x40"}, 11),
    "MosaicoSlow": (
        {f'{SECONDS}{{job="mosaico",le="2.5"}}': "0+94x40"},
        16,
    ),
}


def test_rules__read_metrics_that_the_api_shows(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["EXACT_MATCH"])
    service.upload([pair(1)])
    service.start_run()  # a job that waits
    exposition = service.client.get("/metrics").text
    for expression in ALERTS.values():
        for name, labels in re.findall(r"\b(mosaico_\w+)(?:\{(.*?)\})?", expression):
            [line, *_] = re.findall(rf"^{name}(?:\{{.*\}})? .*$", exposition, re.MULTILINE)
            for label in re.findall(r"(\w+)=", labels):
                assert f"{label}=" in line, (name, label)


def promtool(*words: str | Path) -> str:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip(ADVICE)
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_documented_config__is_accepted_by_prometheus(tmp_path: Path) -> None:
    [config] = blocks("docs/monitoring.md", "yaml")
    (tmp_path / "prometheus.yml").write_text(config)
    shutil.copy(RULES, tmp_path)
    assert "5 rules found" in promtool("check", "config", tmp_path / "prometheus.yml")


def test_rules__every_alert_has_a_fault() -> None:
    assert FAULTS.keys() == ALERTS.keys()


def firing(alert: str, minute: int, *, fires: bool) -> JSON:
    query = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)'
    samples = [{"labels": "{}", "value": int(fires)}]
    return {"expr": query, "eval_time": f"{minute}m", "exp_samples": samples}


def unit_test(series: Mapping[str, str], expectations: Iterable[JSON]) -> JSON:
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    return {"interval": "1m", "input_series": inputs, "promql_expr_test": [*expectations]}


@pytest.mark.parametrize("alert", ALERTS)
def test_rules__alert_fires_for_its_fault_alone(alert: str, tmp_path: Path) -> None:
    series, fires_after_min = FAULTS[alert]
    healthy = unit_test(HEALTHY, [firing(name, 40, fires=False) for name in ALERTS])
    faulty = unit_test(
        {**HEALTHY, **series},
        [
            firing(alert, fires_after_min - 1, fires=False),
            firing(alert, fires_after_min, fires=True),
            *(firing(name, 40, fires=name == alert) for name in ALERTS),
        ],
    )
    document = {"rule_files": [str(RULES)], "tests": [healthy, faulty]}
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(document))
    promtool("test", "rules", tmp_path / "tests.yml")
