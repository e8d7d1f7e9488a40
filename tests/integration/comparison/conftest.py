"""Runs of two agents that pass some of their items."""

from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest
from typer.testing import CliRunner, Result

from mosaico.cli import cli
from tests.support.service import JSON, Service, pair

ITEMS = 40

CompleteRun: TypeAlias = Callable[..., JSON]


def gate(*words: str | Path, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(cli, ["gate", *map(str, words)], env=env or {})


def traces(failed: Collection[int], **more: object) -> list[JSON]:
    """One right or wrong answer to each item; the first ten items are sums."""
    return [
        pair(
            number,
            "yes",
            "no" if number in failed else "yes",
            tags=["kind:sum" if number < 10 else "kind:text"],
            toolCalls=[{"name": "search" if number < 10 else "fetch"}],
            url=f"https://langfuse.example/t/{number}",
            **more,
        )
        for number in range(ITEMS)
    ]


def _run(service: Service, name: str, uploaded: list[JSON], agent: str = "agent-001") -> JSON:
    service.upload(uploaded, run_name=name)
    return service.complete_run(runName=name, agentId=agent)


@pytest.fixture
def complete_run(service: Service) -> CompleteRun:
    return make_complete_run(service)


def make_complete_run(service: Service) -> CompleteRun:
    """What uploads traces under a run name and completes a run over them."""
    service.create_agent()
    service.create_benchmark(
        metrics=["ACCURACY"], measures=[{"id": "quality", "name": "quality", "formula": "ACCURACY"}]
    )
    return partial(_run, service)
