"""Benchmarks that write their scores back to Langfuse."""

from typing import Any

from mosaico.runs import write_back
from tests.support.langfuse import FakeLangfuse
from tests.support.langfuse.records import Score
from tests.support.langfuse.source_benchmarks import agent
from tests.support.service import JSON, Service

EVENTS = "/ingestion"
ALL = {"kpis": True, "metrics": True}
QUALITY = {"name": "Quality", "formula": "AVERAGE(ACCURACY, CONTAINS)"}


def benchmark(service: Service, langfuse: FakeLangfuse, **fields: Any) -> None:
    agent(service, langfuse)
    fields_of_query = {
        "metrics": ["ACCURACY", "CONTAINS"],
        "measures": [QUALITY],
        "writeBack": ALL,
        **fields,
    }
    service.create_benchmark(source="langfuse", **fields_of_query)


def written(langfuse: FakeLangfuse) -> dict[str, Score]:
    return {score.id: score for score in langfuse.store.scores.values()}


def write_again(service: Service, run: JSON) -> JSON:
    with service.resources.db.begin() as session:
        # As after a killed worker, whose job repeats the write-back from its beginning.
        write_back.request_write_back(session, run["id"], service.resources)
    service.work()
    return service.get(f"/benchmark-runs/{run['id']}")
