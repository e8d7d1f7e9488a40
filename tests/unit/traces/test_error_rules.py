"""The outcome of an error: that of the agent, of a time-out, or of what the agent depends on."""

import pytest

from mosaico.harness.text_search import InvalidPattern
from mosaico.traces.error_rules import classify_error, outcome_of_error
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
        # Bugs of the agent, whatever words their messages have.
        ("KeyError: 'rate limit'", TraceOutcome.AGENT_ERROR),
        ("IndexError: no more connections in the pool", TraceOutcome.AGENT_ERROR),
        ("ValueError: quota must be positive", TraceOutcome.AGENT_ERROR),
        ("pydantic_core.ValidationError: api_key field required", TraceOutcome.AGENT_ERROR),
        ("PlannerError: network of 3 agents found no plan", TraceOutcome.AGENT_ERROR),
        ("user 7 has insufficient funds", TraceOutcome.AGENT_ERROR),
        ("openai.BadRequestError: messages must not be empty", TraceOutcome.AGENT_ERROR),
        ("", TraceOutcome.AGENT_ERROR),
        # Classes of clients, behind a class of the agent too.
        ("openai.RateLimitError: slow down", TraceOutcome.INFRA_ERROR),
        ("AgentError: anthropic.APIConnectionError: no answer", TraceOutcome.INFRA_ERROR),
        ("APIConnectionError('no answer')", TraceOutcome.INFRA_ERROR),
        ("google.api_core.exceptions.ServiceUnavailable: later", TraceOutcome.INFRA_ERROR),
        ("An error occurred (ThrottlingException) when calling Converse", TraceOutcome.INFRA_ERROR),
        ("httpx.HTTPStatusError: Client error '429 Too Many Requests'", TraceOutcome.INFRA_ERROR),
        ("httpx.HTTPStatusError: Client error '404 Not Found'", TraceOutcome.AGENT_ERROR),
        ("ConnectionRefusedError: [Errno 111]", TraceOutcome.INFRA_ERROR),
        ("TypeError: fetch failed", TraceOutcome.INFRA_ERROR),
        (
            "Traceback (most recent call last):\n  File 'a.py', line 1\nssl.SSLEOFError: closed",
            TraceOutcome.INFRA_ERROR,
        ),
        (
            "Traceback (most recent call last):\n  File 'httpx.py', line 1\nKeyError: 'choices'",
            TraceOutcome.AGENT_ERROR,
        ),
        # Phrases that only providers and networks write.
        ("Rate limit reached for m in organization o", TraceOutcome.INFRA_ERROR),
        ("You exceeded your current quota, please check your plan", TraceOutcome.INFRA_ERROR),
        ("connect ECONNREFUSED 10.0.0.1:443", TraceOutcome.INFRA_ERROR),
        ("OSError: [Errno 101] Network is unreachable", TraceOutcome.INFRA_ERROR),
        ("getaddrinfo EAI_AGAIN api.example.org", TraceOutcome.INFRA_ERROR),
        ("RuntimeError: CUDA out of memory. Tried to allocate 2 GiB", TraceOutcome.INFRA_ERROR),
        ("The service is temporarily unable to process your request.", TraceOutcome.INFRA_ERROR),
        ("Resource has been exhausted (e.g. check quota).", TraceOutcome.INFRA_ERROR),
        ("check your billing details on our website", TraceOutcome.INFRA_ERROR),
        ("You didn't provide an API key.", TraceOutcome.INFRA_ERROR),
        (
            "The model `m-5` does not exist or you do not have access to it.",
            TraceOutcome.INFRA_ERROR,
        ),
        ("java.net.UnknownHostException: api.example.org", TraceOutcome.INFRA_ERROR),
        ("dial tcp: lookup api.example.org: no such host", TraceOutcome.INFRA_ERROR),
        ("x509: certificate signed by unknown authority", TraceOutcome.INFRA_ERROR),
        ("Insufficient Balance", TraceOutcome.INFRA_ERROR),
        ("OSError: [Errno 28] No space left on device", TraceOutcome.INFRA_ERROR),
        # What an agent says about the things that it works with.
        ("Insufficient balance on account 7", TraceOutcome.AGENT_ERROR),
        ("the account is not active", TraceOutcome.AGENT_ERROR),
        ("the model of car 7 does not exist", TraceOutcome.AGENT_ERROR),
        ("The gift certificate has expired", TraceOutcome.AGENT_ERROR),
        (
            "request to https://m.test failed, reason: certificate has expired",
            TraceOutcome.INFRA_ERROR,
        ),
        ("the refund rate exceeded 10 %", TraceOutcome.AGENT_ERROR),
        ("when calling the Converse operation: Rate exceeded", TraceOutcome.INFRA_ERROR),
        ("Booking failed: insufficient credits", TraceOutcome.AGENT_ERROR),
        ("Insufficient credits. Add more credits", TraceOutcome.INFRA_ERROR),
        ("Transfer failed: the user has an insufficient balance", TraceOutcome.AGENT_ERROR),
        ('{"error": {"message": "Insufficient Balance", "type": "x"}}', TraceOutcome.INFRA_ERROR),
        ("the account was closed unexpectedly", TraceOutcome.AGENT_ERROR),
        ("The connection to m.test was closed unexpectedly", TraceOutcome.INFRA_ERROR),
        ("Device lookup failed: no such host in the inventory", TraceOutcome.AGENT_ERROR),
        ("dial tcp: lookup models on 10.0.0.2:53: no such host", TraceOutcome.INFRA_ERROR),
        ("the answer mentions the docker daemon", TraceOutcome.AGENT_ERROR),
        (
            "Cannot connect to the Docker daemon. Is the docker daemon running?",
            TraceOutcome.INFRA_ERROR,
        ),
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


def test_rule__names_what_decided() -> None:
    assert classify_error("openai.RateLimitError: x").rule == "class openai.RateLimitError"
    assert classify_error("Error code: 503 - busy").rule == "HTTP status 503"
    assert "Broken pipe" in classify_error("Broken pipe").rule


def test_rule__of_the_user_precedes_all_others() -> None:
    message = "KeyError: 'warehouse is down'"

    classed = classify_error(message, ["stock is down", "warehouse .* down"])

    assert classed == (TraceOutcome.INFRA_ERROR, "infraErrors warehouse .* down")


def test_rule__of_the_user_that_is_no_pattern_is_an_error() -> None:
    with pytest.raises(InvalidPattern):
        classify_error("x", ["("])
