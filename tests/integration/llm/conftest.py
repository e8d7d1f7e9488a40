"""Fixtures: a model server, and a service whose metrics use it."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from mosaico.core.resources import Resources
from mosaico.jobs.process_pool import ProcessPool
from mosaico.runs import llm_metrics
from tests.support.llm import ModelService, model_server, short_retries
from tests.support.service import Service, running_service

SHORT_RETRIES = short_retries(
    attempt_timeout_s=20.0, max_retries=2, first_wait_s=0.01, rate_limit_s=5.0
)


@pytest.fixture
def models() -> Iterator[ModelService]:
    with model_server() as server:
        yield server


@pytest.fixture
def service(
    service_resources: Resources,
    metric_pool: ProcessPool,
    models: ModelService,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Service]:
    """The service with an agent; its workers use the model server and retry after short waits."""
    monkeypatch.setattr(llm_metrics, "RETRIES", SHORT_RETRIES)
    resources = replace(service_resources, llm_server=models.access)
    with running_service(resources, metric_pool) as running:
        running.create_agent()
        yield running
