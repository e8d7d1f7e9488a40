"""The outcome of an error: that of the agent, of a time-out, or of what the agent depends on."""

import pytest

from app.traces.imported_values import outcome_of_error
from app.traces.types import TraceOutcome


@pytest.mark.parametrize(
    ("message", "outcome"),
    [
        ("KeyError: 'x'", TraceOutcome.AGENT_ERROR),
        ("InternalServerError: upstream", TraceOutcome.INFRA_ERROR),
        ("ThrottlingException: Rate exceeded", TraceOutcome.INFRA_ERROR),
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
