"""Whose fault an error is, by its message: that of the agent, or of what the agent depends on; pure.

`openai.RateLimitError: …` is the provider's, `KeyError: 'connection'` the agent's. The first rule that fits
decides: those of the user, the class of the exception, an HTTP status that is written as one, a phrase that
only providers and networks write, a time-out. What no rule knows is the agent's.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from mosaico.harness.text_search import compile_pattern
from mosaico.traces.exception_classes import (
    CLASSES_OF_AGENTS,
    CLASSES_OF_INFRASTRUCTURE,
    DECIDED_BY_STATUS,
    MODULES_OF_AGENTS,
    MODULES_OF_INFRASTRUCTURE,
    REQUESTS_OF_CALLERS,
)
from mosaico.traces.types import Trace, TraceOutcome


class ClassedError(NamedTuple):
    """The outcome of an error, and the rule that decided it, in words for people."""

    outcome: TraceOutcome
    rule: str


class ErrorPhrase(NamedTuple):
    """A text that only one kind of fault writes, with the name of this kind."""

    kind: str
    pattern: str


def classify_error(message: str, infra_errors: Sequence[str] = ()) -> ClassedError:
    """The outcome of a result that ended with an error message, and the rule that decided it.

    `infra_errors` are patterns of the user (RE2), which come first. Of a traceback its last exception
    decides. An empty message is the agent's. Raises: `InvalidPattern`.
    """
    for text in infra_errors:
        if compile_pattern(text).search(message):
            return ClassedError(TraceOutcome.INFRA_ERROR, f"infraErrors {text}")
    return (
        _by_class(message)
        or _by_status(message)
        or _by_phrase(message)
        or ClassedError(TraceOutcome.AGENT_ERROR, NO_RULE)
    )


def outcome_of_error(message: str) -> TraceOutcome:
    """The outcome of a result that ended with an error message, by the rules of `classify_error`."""
    return classify_error(message).outcome


def excuse_error(trace: Trace, infra_errors: Sequence[str]) -> Trace:
    """The trace with the outcome that the patterns of a user give it: an error that fits one is not the agent's.
    Raises: `InvalidPattern`.
    """
    if not trace.error or not trace.outcome.is_agent_failure:
        return trace
    message = trace.error
    if not any(compile_pattern(pattern).search(message) for pattern in infra_errors):
        return trace
    return replace(trace, outcome=TraceOutcome.INFRA_ERROR)


NO_RULE: Final = "no rule: the agent's"

# Names that nothing but these clients has: they decide wherever a message holds them.
_DISTINCT_NAME: Final = re.compile(
    r"\b(?:RateLimitError|API(?:Connection|Timeout)Error|ServiceUnavailable(?:Error|Exception)"
    r"|ThrottlingException|TooManyRequestsException|ModelNotReadyException|ServiceQuotaExceededException"
    r"|SSLCertVerificationError|NameResolutionError|RemoteProtocolError|ServerDisconnectedError)\b"
)
_CLASS_AT_START: Final = re.compile(r"\W*((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?=\s*[:(]|\s*$)")
_TRACEBACK: Final = "Traceback (most recent call last)"
# What JavaScript says of a network that failed, with a class of its bugs.
_FAILED_FETCH: Final = re.compile(
    r"\W*TypeError: (?:fetch failed|failed to fetch|networkerror when|terminated$)", re.IGNORECASE
)


def _by_class(message: str) -> ClassedError | None:
    if _FAILED_FETCH.match(message):
        return ClassedError(TraceOutcome.INFRA_ERROR, "phrase: fetch failed")
    for name in _class_names(message):
        outcome = _outcome_of_class(name)
        if outcome is not None:
            return ClassedError(outcome, f"class {name}")
    if found := _DISTINCT_NAME.search(message):
        return ClassedError(TraceOutcome.INFRA_ERROR, f"class {found[0]}")
    return None


def _outcome_of_class(name: str) -> TraceOutcome | None:
    """The outcome of an exception by its name, with or without its module; None when it does not tell."""
    modules, _, bare = name.rpartition(".")
    module = modules.partition(".")[0]
    if bare in DECIDED_BY_STATUS:
        return None
    if bare in CLASSES_OF_AGENTS or module in MODULES_OF_AGENTS:
        return TraceOutcome.AGENT_ERROR
    if bare in REQUESTS_OF_CALLERS:
        return TraceOutcome.AGENT_ERROR
    if bare in CLASSES_OF_INFRASTRUCTURE or module in MODULES_OF_INFRASTRUCTURE:
        return TraceOutcome.INFRA_ERROR
    return None


def _class_names(message: str) -> list[str]:
    """The classes that a message begins with: `LlmError: openai.RateLimitError: …` has two."""
    if _TRACEBACK in message:
        # The last line that begins with a class: messages may have several lines.
        lines = message[message.rindex(_TRACEBACK) :].splitlines()[1:]
        message = next(filter(_begins_with_class, reversed(lines)), "")
    names = []
    position = 0
    while found := _CLASS_AT_START.match(message, position):
        names.append(found[1])
        position = found.end()
    return names


def _begins_with_class(line: str) -> bool:
    found = _CLASS_AT_START.match(line)
    return bool(found) and not line[:1].isspace()


_STATUS: Final = r"(40[1238]|429|50[0-478]|52\d|530)\b"
_WRITTEN_STATUS: Final = re.compile(
    # A number alone may be one of the agent's own: "expected 503 tokens".
    rf"(?:status|code|error|exception|https?(?:/[\d.]+)?)[\W_]{{0,4}}{_STATUS}"
    rf"|^\W{{0,4}}{_STATUS}(?=\W*$|\W*[\]:({{-]|\s+(?-i:[A-Z]))",
    re.IGNORECASE,
)


def _by_status(message: str) -> ClassedError | None:
    found = _WRITTEN_STATUS.search(message)
    if found is None:
        return None
    return ClassedError(TraceOutcome.INFRA_ERROR, f"HTTP status {found[1] or found[2]}")


def _phrase(kind: str, *patterns: str) -> ErrorPhrase:
    return ErrorPhrase(kind, "|".join(patterns))


_PHRASES: Final = (
    _phrase(
        "rate limit",
        r"rate.?limit(?:ed\b|s?\W+(?:\w+\W+){0,3}(?:reached|exceeded|hit|error)|_exceeded|_error|\W*$)",
        r"exceed\w*\W+(?:\w+\W+){0,5}rate.?limit",
        r"too many requests|(?:^|: )\W*rate exceeded|throttled\b|request was throttled",
    ),
    _phrase(
        "quota and credit",
        r"exceeded your current quota|quota exceeded|insufficient.quota|resource.?exhausted",
        # Customers of an agent have credits and balances, too.
        r"credit balance is too low|billing (?:hard )?limit",
        r"(?:^|\bmessage\b)\W*insufficient.credits|(?-i:Insufficient Balance)\b(?! \w)",
        r"resource has been exhausted|check your (?:plan and )?billing details",
    ),
    _phrase(
        "provider",
        r"overloaded(?:_error)?\b|(?:server|model) is (?:currently )?(?:busy|loading|at capacity)",
        r"the server had an error (?:while )?processing your request|internal.?server.?error",
        r"service.?(?:is |temporarily.?)*unavailable|bad.?gateway|gateway.?time.?out",
        r"service is temporarily unable|you can retry your request|DeploymentNotFound",
        r"the model `?[\w.:/-]+`? does not exist or you do not have access|AsyncEngineDeadError",
        r"upstream (?:connect error|request timeout|error)|no healthy upstream",
        r"StatusCode\.(?:UNAVAILABLE|DEADLINE_EXCEEDED|UNAUTHENTICATED|RESOURCE_EXHAUSTED|INTERNAL)",
        r"CUDA (?:out of memory|error)|out of memory on device",
    ),
    _phrase(
        "key of the provider",
        r"(?:invalid|incorrect|missing|expired|no).api.?key|api.?key (?:not|is (?:invalid|not|missing|expired))",
        r"didn.t provide an api key|api_key client option must be set|authentication_error|invalid authentication credentials",
        r"^\W*unauthorized\W*$|security token included in the request is (?:invalid|expired)",
    ),
    _phrase(
        "network",
        r"connection (?:error\b|reset|refused|aborted|closed|broken|timed out|attempts failed|was closed)",
        r"server disconnected|remote end closed connection|peer closed connection",
        r"\b(?:connection|peer|socket|stream|session|transport)\W+(?:\w+\W+){0,4}closed unexpectedly",
        r"network (?:is unreachable|error\b|connection lost)|no route to host|broken pipe",
        r"E(?:CONN(?:RESET|REFUSED|ABORTED)|NOTFOUND|TIMEDOUT|AI_AGAIN|PIPE|HOSTUNREACH|NETUNREACH)\b",
        r"socket hang up|fetch failed|premature close|max retries exceeded with url",
        r"network socket disconnected|incomplete chunked read|MCP error -3200[01]: (?:request timed|connection)",
    ),
    _phrase(
        "name resolution",
        r"name resolution|name or service not known|nodename nor servname|getaddrinfo",
        r"could not resolve host|no address associated with hostname|\blookup (?:[\w-]+\.[\w.-]+|\S+ on \S+): no such host",
        r"UnknownHostException",
    ),
    _phrase(
        "TLS",
        r"certificate.verify.failed|_ssl\.c|in violation of protocol|ssl handshake|tls handshake",
        r"unable to (?:get local issuer|verify the first) certificate|self.signed certificate",
        r"(?:^|[:,] )\W*certificate has expired|x509: certificate",
    ),
    _phrase(
        "machine",
        r"connect\w* to the docker daemon|docker daemon is not|no space left on device",
    ),
    _phrase(
        "time-out of a client",
        r"api.?timeout|request timed out(?:\.| or interrupted)|Client\.Timeout exceeded",
        r"\b(?:read|write|connect|pool)(?: operation)?.?timed?.?out",
    ),
)
_TIMEOUT: Final = re.compile(r"time.?out|timed out", re.IGNORECASE)


def _by_phrase(message: str) -> ClassedError | None:
    for kind, pattern in _PHRASES:
        # Compiled at the first error: most files have none.
        if found := re.search(pattern, message, re.IGNORECASE):
            rule = f"phrase of the {kind}: {found[0].strip()}"
            return ClassedError(TraceOutcome.INFRA_ERROR, rule)
    if _TIMEOUT.search(message):
        return ClassedError(TraceOutcome.TIMEOUT, "a time-out that names no client")
    return None
