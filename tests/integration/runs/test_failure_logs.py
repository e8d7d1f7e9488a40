"""The page of a failed run shows an ID by which the lines of the log about its failure are found."""

import io
import json
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import structlog

from mosaico.core.logging import configure_logging
from mosaico.jobs.declarations import JobRequest
from mosaico.jobs.handlers import HANDLERS, JobContext
from mosaico.scheduler import fail_stalled_runs
from tests.support.service import Service, pair
from tests.support.stored import DatabaseReader

Lines = list[dict[str, Any]]


@pytest.fixture
def read_log() -> Iterator[Callable[[], str]]:
    """Reads the log, which is written as lines of JSON."""
    root = logging.getLogger()
    before = (list(root.handlers), root.level)
    configure_logging("json")
    [handler] = root.handlers
    assert isinstance(handler, logging.StreamHandler)
    # pytest gives the test another standard error than its fixtures, and closes the first one.
    log_text = io.StringIO()
    handler.setStream(log_text)
    yield log_text.getvalue
    structlog.reset_defaults()
    root.handlers[:], root.level = before


@pytest.fixture
def prepared_service(service: Service) -> Service:
    service.create_agent()
    service.create_benchmark(metrics=["ROUGE"])
    service.upload([pair(1)])
    return service


def find_lines(service: Service, run_id: str, log_text: str) -> Lines:
    """The lines of the log that have the ID that the page of a run offers to copy."""
    page = service.client.get(f"/runs/{run_id}", headers={"Accept": "text/html"}).text
    [card] = re.findall(r'<article class="card news failed">.*?</article>', page, re.DOTALL)
    [shown_id] = re.findall(r'data-copy="([^"]+)"', card)
    lines = (line for line in log_text.splitlines() if line.startswith("{"))
    return [json.loads(line) for line in lines if shown_id in line]


def test_failed_run__id_on_its_page_finds_the_lines_of_the_log(
    prepared_service: Service, read_log: Callable[[], str]
) -> None:
    """Criterion 11."""
    run = prepared_service.start_run(runName="no-such-upload")
    prepared_service.work()
    failed = prepared_service.get(f"/benchmark-runs/{run['id']}")
    lines = find_lines(prepared_service, run["id"], read_log())
    assert [line["code"] for line in lines if line["event"] == "run failed"] == [
        failed["errorCode"]
    ]
    [cause] = [line for line in lines if "runs.collect" in line["event"]]
    assert (cause["level"], cause["run_id"]) == ("error", run["id"])
    assert failed["errorMessage"] in cause["event"]


def test_failed_run__id_finds_the_traceback_of_an_unexpected_error(
    prepared_service: Service,
    read_log: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_job: JobContext, _request: JobRequest) -> None:
        raise RuntimeError("a mistake in the code")

    # An unexpected error may contain secrets: the page hides its message, only the log has it.
    handler = HANDLERS.find("runs.collect")
    assert handler is not None
    monkeypatch.setitem(HANDLERS._handlers, handler.name, replace(handler, function=fail))
    run = prepared_service.start_run()
    prepared_service.work()
    lines = find_lines(prepared_service, run["id"], read_log())
    assert any("RuntimeError: a mistake in the code" in line.get("exception", "") for line in lines)


def test_stalled_run__id_on_its_page_finds_the_line_of_the_log(
    prepared_service: Service,
    rows: DatabaseReader,
    read_log: Callable[[], str],
) -> None:
    run = prepared_service.start_run()
    # A run that a job still waits for is not stalled.
    rows.execute("DELETE FROM procrastinate_jobs")
    rows.execute("UPDATE benchmark_runs SET created_at = now() - interval '16 minutes'")
    fail_stalled_runs(prepared_service.resources, timedelta(minutes=15))
    [line] = find_lines(prepared_service, run["id"], read_log())
    assert (line["event"], line["code"]) == ("run failed", "STALE")
