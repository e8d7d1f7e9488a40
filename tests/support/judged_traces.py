"""Traces and answers of runs that are judged."""

from tests.support.service import JSON, Service, pair

RUNS = "/benchmark-runs"
BY_LENGTH = {"key": "LLM_JUDGE", "options": {"prompt": "Judge: {output}"}}


def by_trace(service: Service, run: JSON) -> dict[str, JSON]:
    return {row["traceId"]: row for row in service.list_items(f"{RUNS}/{run['id']}/results")}


def outputs(*texts: str) -> list[JSON]:
    return [pair(number, "expected", text) for number, text in enumerate(texts)]
