"""Sample data of `mosaico demo`: an agent, a benchmark, and the traces of two runs; pure.

The second run is worse: the tool that answers questions about refunds fails in it.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

AGENT_ID: Final = "sample-agent"
BENCHMARK_ID: Final = "sample-benchmark"
DATASET: Final = "sample-questions"
RUN_NAMES: Final = ("sample-1", "sample-2")
REMOVAL: Final = "mosaico demo --remove"
_ABOUT: Final = f"Sample data of “mosaico demo”; “{REMOVAL}” deletes it."

AGENT: Final[dict[str, Any]] = {
    "id": AGENT_ID,
    "name": "Sample: support bot",
    "description": _ABOUT,
}
BENCHMARK: Final[dict[str, Any]] = {
    "id": BENCHMARK_ID,
    "metadata": {"name": "Sample: support questions", "sample": True},
    "taskDef": _ABOUT,
    "source": "local",
    "datasetRef": DATASET,
    "evaluates": [AGENT_ID],
    "metrics": ["EXACT_MATCH", "ROUGE"],
    "measures": [
        {"name": "pass rate", "formula": "EXACT_MATCH", "thresholdMin": 0.8, "gate": True},
        {"name": "similarity", "formula": "ROUGE"},
    ],
}
_TOPICS: Final = ("refund", "delivery", "invoice", "password", "warranty", "address")
_QUESTIONS: Final = 60


def iter_trace_lines(run_name: str) -> Iterator[bytes]:
    """The traces of a run, one JSON document per line."""
    for number in range(_QUESTIONS):
        yield json.dumps(_trace(number, run_name)).encode() + b"\n"


def _trace(number: int, run_name: str) -> dict[str, Any]:
    topic = _TOPICS[number % len(_TOPICS)]
    expected = f"The {topic} of order {number} takes {2 + number % 5} days."
    is_broken = run_name == RUN_NAMES[1] and topic == "refund"
    # One in fifteen answers is wrong in both runs.
    is_wrong = is_broken or number % 15 == 1
    return {
        "traceId": f"{run_name}-{number:03}",
        "itemId": f"question-{number:03}",
        "input": f"How long does the {topic} of order {number} take?",
        "expectedOutput": expected,
        "output": f"I cannot find the {topic} of order {number}." if is_wrong else expected,
        "latencyMs": 400 + 10 * number + (900 if is_broken else 0),
    }
