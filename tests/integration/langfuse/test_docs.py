"""The requests of the pages about Langfuse work."""

import json
import re

import pytest

from tests.integration.docs.test_examples import blocks
from tests.support.langfuse import FakeLangfuse
from tests.support.service import JSON, Service

PAGES = ("docs/langfuse.md", "docs/langfuse-traces.md", "docs/langfuse-collection.md")
REQUEST = re.compile(r"\$API(/\S*)(?: -X POST| --json '(.*?)')", re.DOTALL)


def blocks_of_pages(language: str) -> list[str]:
    return [block for page in PAGES for block in blocks(page, language)]


@pytest.fixture
def documented_requests(langfuse: FakeLangfuse) -> list[tuple[str, JSON | None]]:
    """The requests of the page, with the address and keys of the fake server."""
    shell = "\n".join(blocks_of_pages("sh"))
    there = {
        "https://cloud.langfuse.com": langfuse.url,
        "pk-lf-…": langfuse.public_key,
        "sk-lf-…": langfuse.secret_key,
    }
    for placeholder, real in there.items():
        shell = shell.replace(placeholder, real)
    return [(path, json.loads(body) if body else None) for path, body in REQUEST.findall(shell)]


def test_langfuse_page__estimate_has_the_documented_purposes(
    service: Service, langfuse: FakeLangfuse, documented_requests: list[tuple[str, JSON | None]]
) -> None:
    *_, estimate = [service.post(path, body) for path, body in documented_requests]
    example = next(block for block in blocks_of_pages("console") if "runs estimate" in block)
    documented = dict(re.findall(r"^(\w+) +(\d+)$", example, re.MULTILINE))
    assert [*estimate["requests"], "total"] == [*documented]
    *counts, total = map(int, documented.values())
    assert sum(counts) == total


def test_langfuse_page__requests_set_up_a_benchmark_that_writes_back(
    service: Service, langfuse: FakeLangfuse, documented_requests: list[tuple[str, JSON | None]]
) -> None:
    langfuse.experiment(dataset="support questions", items=100)
    answers = [service.post(path, body) for path, body in documented_requests]
    check_example, write_back_example = blocks_of_pages("json")
    expected_check = json.loads(check_example) | {"langfuseUrl": langfuse.url}
    assert [path for path, _ in documented_requests] == [
        "/agents",
        "/agents/support-agent/check",
        "/benchmarks",
        "/benchmarks",
        "/benchmark-runs/estimate",
    ]
    assert answers[1] == expected_check
    run = service.complete_run(benchmarkId="support", agentId="support-agent")
    # 100 traces, two metrics, one KPI.
    assert {"writeBack": run["writeBack"]} == json.loads(write_back_example)
