"""Runs of an agent that passes some of its items."""

from collections.abc import Callable, Collection
from functools import partial
from typing import TypeAlias

import pytest

from tests.support.service import JSON, Service, pair

ITEMS = 40

CompleteRun: TypeAlias = Callable[..., JSON]


def traces(failed: Collection[int], items: int = ITEMS, trials: int = 1) -> list[JSON]:
    """One right or wrong answer for each trial of each item."""
    return [
        pair(number, "yes", "no" if number in failed else "yes")
        | {"traceId": f"t-{number}-{trial}", "trial": trial}
        for number in range(items)
        for trial in range(trials)
    ]


def _run(service: Service, name: str, uploaded: list[JSON]) -> JSON:
    service.upload(uploaded, run_name=name)
    return service.complete_run(runName=name)


@pytest.fixture
def complete_run(service: Service) -> CompleteRun:
    """Uploads traces under a run name and completes a run over them."""
    service.create_agent()
    service.create_benchmark(
        metrics=["ACCURACY"], measures=[{"id": "quality", "name": "quality", "formula": "ACCURACY"}]
    )
    return partial(_run, service)
