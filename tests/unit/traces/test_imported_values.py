"""The outcome of an error: that of the agent, of a time-out, or of what the agent depends on."""

import pytest

from mosaico.traces.files.imported_values import outcome_of_error
from mosaico.traces.types import TraceOutcome


@pytest.mark.parametrize(
    ("message", "outcome"),
    [
        ("KeyError: 'x'", TraceOutcome.AGENT_ERROR),
        ("InternalServerError: upstream", TraceOutcome.INFRA_ERROR),
        ("ThrottlingException: Rate exceeded", TraceOutcome.INFRA_ERROR),
        ("ModelHTTPError: status_code: 429, model_name: m", TraceOutcome.INFRA_ERROR),
        ("Error code: 503 - {'error': 'no capacity'}", TraceOutcome.INFRA_ERROR),
        ("Server error '502' for url", TraceOutcome.INFRA_ERROR),
        ("HTTP/1.1 504", TraceOutcome.INFRA_ERROR),
        ("[429] slow down", TraceOutcome.INFRA_ERROR),
        ("529: busy", TraceOutcome.INFRA_ERROR),
        ("503", TraceOutcome.INFRA_ERROR),
        # Numbers of the agent's own.
        ("ValueError: expected 503 tokens", TraceOutcome.AGENT_ERROR),
        ("error: 512 is too many", TraceOutcome.AGENT_ERROR),
        ("500 rows were expected", TraceOutcome.AGENT_ERROR),
        # Time-outs of the clients of models: of OpenAI, Anthropic, httpx and requests.
        ("Request timed out.", TraceOutcome.INFRA_ERROR),
        ("Request timed out or interrupted. This could be due to …", TraceOutcome.INFRA_ERROR),
        ("httpx.ReadTimeout: The read operation timed out", TraceOutcome.INFRA_ERROR),
        ("Read timed out. (read timeout=5)", TraceOutcome.INFRA_ERROR),
        # Time-outs that may be the agent's own.
        ("Evaluation timed out after 3000 ms", TraceOutcome.TIMEOUT),
        ("the thread timed out", TraceOutcome.TIMEOUT),
    ],
)
def test_outcome__of_an_error_names_who_is_responsible(message: str, outcome: TraceOutcome) -> None:
    assert outcome_of_error(message) is outcome
