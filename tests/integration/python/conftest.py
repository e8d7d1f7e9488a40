"""A client of a real service, and two runs."""

from collections.abc import Iterator

import pytest

from mosaico import Client
from tests.support.service import Service

NIGHTLY = {
    "id": "nightly",
    "evaluates": ["bot"],
    "source": "local",
    "datasetRef": "support",
    "metrics": ["ACCURACY"],
    "measures": [{"name": "quality", "formula": "ACCURACY"}],
}


def answers(wrong: int) -> list[dict[str, object]]:
    return [
        {"item": f"q{n}", "expected": "yes", "output": "no" if n < wrong else "yes"}
        for n in range(40)
    ]


def key_of(service: Service) -> str:
    return service.client.headers["Authorization"].removeprefix("Bearer ")


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client(str(service.client.base_url), key_of(service)) as connected:
        yield connected


@pytest.fixture
def two_runs(service: Service, client: Client) -> tuple[str, str]:
    """The IDs of a good run and of a worse one."""
    client.create_agent({"id": "bot", "name": "Support bot"})
    client.create_benchmark(NIGHTLY)
    run_ids = []
    for run_name, wrong in (("monday", 2), ("tuesday", 14)):
        client.upload(answers(wrong), name="support", run_name=run_name)
        run_ids.append(client.start_run("nightly", "bot", run_name=run_name).id)
        service.work()
    return run_ids[0], run_ids[1]
