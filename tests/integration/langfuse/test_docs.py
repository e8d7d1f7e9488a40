"""What docs/langfuse.md shows is what happens."""

import json
import re

import pytest

from tests.integration.docs.test_examples import blocks
from tests.support.langfuse import StandIn
from tests.support.service import JSON, Service

PAGE = "docs/langfuse.md"
REQUEST = re.compile(r"\$API(/\S*)(?: -X POST| --json '(.*?)')", re.DOTALL)


@pytest.fixture
def asked(langfuse: StandIn) -> list[tuple[str, JSON | None]]:
    """The requests of the page, with a server and keys that there are."""
    [shell] = blocks(PAGE, "sh")
    there = {
        "https://cloud.langfuse.com": langfuse.url,
        "pk-lf-…": langfuse.public_key,
        "sk-lf-…": langfuse.secret_key,
    }
    for shown, real in there.items():
        shell = shell.replace(shown, real)
    return [(path, json.loads(body) if body else None) for path, body in REQUEST.findall(shell)]


def test_the_requests_of_the_page_set_up_a_benchmark_that_writes_back(
    service: Service, langfuse: StandIn, asked: list[tuple[str, JSON | None]]
) -> None:
    langfuse.experiment(dataset="support questions", items=100)
    answers = [service.post(path, body) for path, body in asked]
    checked, run = blocks(PAGE, "json")
    shown = json.loads(checked) | {"langfuseUrl": langfuse.url}
    assert [path for path, _ in asked] == ["/agents", "/agents/support-agent/check", "/benchmarks"]
    assert answers[1] == shown
    found = service.completed(benchmarkId="support", agentId="support-agent")
    # 100 traces, two metrics, one KPI.
    assert {"writeBack": found["writeBack"]} == json.loads(run)
