"""Decisions about triggers: who signed a call, what an event of Langfuse says, which rules fit it."""

import base64
import binascii
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from app.benchmarks.event_triggers import (
    LangfuseRule,
    MonitorAlert,
    PromptVersion,
    RemoteExperiment,
)
from app.core.text import unstorable_reason

TOLERANCE_S = 300
MAX_SECRETS = 20
SECRET_BYTES = 32
SECRET_PREFIX = "whsec_"  # noqa: S105 - what secrets begin with
LANGFUSE_PREFIX = "lf-whsec_"
SCHEME = "v1"
MAX_SIGNATURES = 10
MAX_TEXT = 200

DEBOUNCE = timedelta(seconds=30)
EVENTS_KEPT = timedelta(days=7)
POLLED_EVERY = timedelta(minutes=5)

_MESSAGE_ID = re.compile(r"[!-~]{1,255}")
_SECONDS = re.compile(r"[0-9]{1,12}")

# Compared with where there is no secret, so that it takes as long.
_NOBODYS = secrets.token_bytes(SECRET_BYTES)


class EventStatus(StrEnum):
    WAITING = "WAITING"
    STARTED = "STARTED"
    IGNORED = "IGNORED"


class EventType(StrEnum):
    """What happened; the three in the middle are told by Langfuse."""

    WEBHOOK = "webhook"
    REMOTE_EXPERIMENT = "remote-experiment"
    PROMPT_VERSION = "prompt-version"
    MONITOR_ALERT = "monitor-alert"
    OTHER = "other"
    AGENT_UPDATED = "agent-updated"
    DATASET_UPDATED = "dataset-updated"
    NEW_RUN = "new-run"


class SignedCall(NamedTuple):
    """What was signed, the signatures that came with it, and when (seconds since 1970).

    `spell` writes a signature the one way that is accepted.
    """

    content: bytes
    signatures: tuple[bytes, ...]
    signed_at: int
    spell: Callable[[bytes], bytes]


def new_secret() -> str:
    """A secret for webhooks: 256 random bits. Source: Standard Webhooks 1.0."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode("ascii")


def key_of(secret: str) -> bytes:
    """The bytes that sign: what follows `whsec_` decoded, a secret of Langfuse as it is written."""
    if secret.startswith(LANGFUSE_PREFIX):
        return secret.encode()
    return base64.b64decode(secret.removeprefix(SECRET_PREFIX))


def standard_call(
    message_id: str | None, timestamp: str | None, signatures: str | None, body: bytes
) -> SignedCall | None:
    """A call as its three headers say that it was signed; None when they cannot be read.

    Source: Standard Webhooks 1.0: `v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`,
    several of them apart by blanks while a secret is rotated.
    """
    if message_id is None or not _MESSAGE_ID.fullmatch(message_id):
        return None
    if timestamp is None or not _SECONDS.fullmatch(timestamp) or signatures is None:
        return None
    parts = [each.partition(",") for each in signatures.split(" ")[:MAX_SIGNATURES]]
    offered = tuple(text.encode() for version, _, text in parts if version == SCHEME)
    content = f"{message_id}.{timestamp}.".encode() + body
    return SignedCall(content, offered, int(timestamp), base64.b64encode)


def langfuse_call(header: str | None, body: bytes) -> SignedCall | None:
    """A call as Langfuse says that it signed it; None when the header cannot be read.

    Source: `t=<seconds>,v1=<hex of HMAC-SHA256 over "t.body">`.
    """
    parts = [each.strip().partition("=") for each in (header or "").split(",")[:MAX_SIGNATURES]]
    times = [value for name, _, value in parts if name == "t" and _SECONDS.fullmatch(value)]
    if len(times) != 1:
        return None
    offered = tuple(value.encode() for name, _, value in parts if name == SCHEME)
    return SignedCall(f"{times[0]}.".encode() + body, offered, int(times[0]), binascii.hexlify)


def signer_of(call: SignedCall, keys: Sequence[bytes]) -> int | None:
    """Which of at most `MAX_SECRETS` keys signed a call; None when none did.

    Cost:    the same whatever there are of keys, so that it tells nobody whether there are any.
    """
    found: int | None = None
    padded = [*keys, *[_NOBODYS] * MAX_SECRETS][: max(MAX_SECRETS, len(keys))]
    for number, key in enumerate(padded):
        expected = call.spell(hmac.digest(key, call.content, "sha256"))
        fits = [hmac.compare_digest(expected, offered) for offered in call.signatures]
        if any(fits) and number < len(keys):
            found = number
    return found


def seconds_off(call: SignedCall, now: datetime) -> int:
    """How far from now a call was signed; at most `TOLERANCE_S` is accepted."""
    return abs(int(now.timestamp()) - call.signed_at)


def digest(*parts: str | bytes) -> str:
    """A digest that tells these parts from any others."""
    raw = [part if isinstance(part, bytes) else part.encode() for part in parts]
    return hashlib.sha256(b"".join(b"%d:%s" % (len(each), each) for each in raw)).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class LangfuseEvent:
    """What matters of an event of Langfuse. `asks` is what its sender asks of the run.

    `id` is None where Langfuse gives none: a remote experiment.
    """

    type: EventType
    id: str | None = None
    project_id: str | None = None
    dataset_name: str | None = None
    prompt_name: str | None = None
    labels: tuple[str, ...] = ()
    monitor_id: str | None = None
    severity: str | None = None
    asks: dict[str, str] = field(default_factory=dict)

    @classmethod
    def stored(cls, document: dict[str, Any]) -> "LangfuseEvent":
        values = {**document, "labels": tuple(document["labels"])}
        return cls(**{**values, "type": EventType(document["type"])})


ASKED = {"benchmark": "benchmark_id", "agent": "agent_id", "runName": "run_name"}


def read_langfuse_event(body: Any) -> LangfuseEvent:
    """The event that a body tells of; `OTHER` when it is none that can start a run."""
    document = _object(body)
    kind, event_id = _text(document, "type"), _text(document, "id")
    if kind == EventType.PROMPT_VERSION and document.get("action") != "deleted":
        return _prompt_version(event_id, _object(document.get("prompt")))
    if kind == EventType.MONITOR_ALERT:
        return _monitor_alert(event_id, _object(document.get("payload")))
    if kind is None and _text(document, "datasetName") is not None:
        return _remote_experiment(document)
    return LangfuseEvent(type=EventType.OTHER, id=event_id)


def fits(event: LangfuseEvent, rule: LangfuseRule) -> bool:
    """Whether an event is of the kind of a rule and has what the rule names."""
    if event.type != rule.event:
        return False
    match rule:
        case RemoteExperiment():
            pairs = [(rule.project_id, event.project_id), (rule.dataset_name, event.dataset_name)]
        case PromptVersion():
            labelled = rule.label if rule.label in event.labels else None
            pairs = [
                (rule.project_id, event.project_id),
                (rule.prompt_name, event.prompt_name),
                (rule.label, labelled),
            ]
        case MonitorAlert():
            pairs = [(rule.monitor_id, event.monitor_id), (rule.severity, event.severity)]
    return all(wanted is None or wanted == given for wanted, given in pairs)


def _prompt_version(event_id: str | None, prompt: dict[str, Any]) -> LangfuseEvent:
    labels = prompt.get("labels")
    return LangfuseEvent(
        type=EventType.PROMPT_VERSION,
        id=event_id,
        project_id=_text(prompt, "projectId"),
        prompt_name=_text(prompt, "name"),
        labels=tuple(_texts(labels if isinstance(labels, list) else [])),
    )


def _monitor_alert(event_id: str | None, payload: dict[str, Any]) -> LangfuseEvent:
    return LangfuseEvent(
        type=EventType.MONITOR_ALERT,
        id=event_id,
        monitor_id=_text(payload, "monitorId"),
        severity=_text(payload, "severity"),
    )


def _remote_experiment(document: dict[str, Any]) -> LangfuseEvent:
    payload = _payload(document.get("payload"))
    given = {field: _text(payload, name) for name, field in ASKED.items()}
    return LangfuseEvent(
        type=EventType.REMOTE_EXPERIMENT,
        project_id=_text(document, "projectId"),
        dataset_name=_text(document, "datasetName"),
        asks={name: text for name, text in given.items() if text is not None},
    )


def _payload(value: Any) -> dict[str, Any]:
    """The object that the sender typed; Langfuse passes it on as a text, mostly."""
    if not isinstance(value, str):
        return _object(value)
    try:
        return _object(json.loads(value))
    except (ValueError, RecursionError):
        return {}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(document: dict[str, Any], name: str) -> str | None:
    return next(_texts([document.get(name)]), None)


def _texts(values: list[Any]) -> Iterator[str]:
    """Those that are texts which a rule could name."""
    texts = (each for each in values if isinstance(each, str) and 0 < len(each) <= MAX_TEXT)
    return (each for each in texts if unstorable_reason(each) is None)
