"""Pure rules of triggers: signature checks, Langfuse event parsing and rule matching."""

import base64
import binascii
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from pydantic.alias_generators import to_camel, to_snake

from mosaico.benchmarks.config_types import (
    LangfuseTrigger,
    MonitorAlertTrigger,
    PromptVersionTrigger,
    RemoteExperimentTrigger,
)
from mosaico.core.text import unstorable_reason

MAX_SECRETS = 20
SECRET_BYTES = 32
SECRET_PREFIX = "whsec_"  # noqa: S105 - the public prefix of secrets
LANGFUSE_PREFIX = "lf-whsec_"
SCHEME = "v1"
# Each costs a comparison with every key: an unauthenticated sender must not choose how many.
MAX_SIGNATURES = 10
MAX_TEXT_CHARS = 200

DEBOUNCE = timedelta(seconds=30)
POLL_INTERVAL = timedelta(minutes=5)

_MESSAGE_ID = re.compile(r"[!-~]{1,255}")
_SECONDS = re.compile(r"[0-9]{1,12}")

# Pads the list of keys, so that a benchmark without a secret answers as slowly as one with many.
_DUMMY_KEY = secrets.token_bytes(SECRET_BYTES)


class TriggerEventStatus(StrEnum):
    """State of an event; STARTED and IGNORED are final."""

    WAITING = "WAITING"
    STARTED = "STARTED"
    IGNORED = "IGNORED"


class TriggerEventType(StrEnum):
    """Type of an event; Langfuse sends the three after WEBHOOK, and OTHER is every other body."""

    WEBHOOK = "webhook"
    REMOTE_EXPERIMENT = "remote-experiment"
    PROMPT_VERSION = "prompt-version"
    MONITOR_ALERT = "monitor-alert"
    OTHER = "other"
    AGENT_UPDATED = "agent-updated"
    DATASET_UPDATED = "dataset-updated"
    NEW_RUN = "new-run"


class SignedMessage(NamedTuple):
    """Signed content with its offered signatures; `signed_at` in seconds since 1970.

    `encode` turns a digest into the only accepted spelling of a signature.
    """

    content: bytes
    signatures: tuple[bytes, ...]
    signed_at: int
    encode: Callable[[bytes], bytes]


class RunRequest(NamedTuple):
    """A run that an event asks for."""

    benchmark_id: str
    agent_id: str
    run_name: str | None


def generate_secret() -> str:
    """Generate a webhook secret of 256 random bits. Source: Standard Webhooks 1.0."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode("ascii")


def decode_key(secret: str) -> bytes:
    """The signing key: a Langfuse secret as it is, otherwise the decoded part after `whsec_`."""
    if secret.startswith(LANGFUSE_PREFIX):
        return secret.encode()
    return base64.b64decode(secret.removeprefix(SECRET_PREFIX))


def parse_standard_signature(
    message_id: str | None, timestamp: str | None, signatures: str | None, body: bytes
) -> SignedMessage | None:
    """Parse the three headers of a Standard Webhooks call; None when they are malformed.

    Source: Standard Webhooks 1.0: `v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`;
            during a secret rotation several signatures, separated by spaces.
    """
    if message_id is None or not _MESSAGE_ID.fullmatch(message_id):
        return None
    if timestamp is None or not _SECONDS.fullmatch(timestamp) or signatures is None:
        return None
    parts = [entry.partition(",") for entry in signatures.split(" ")[:MAX_SIGNATURES]]
    offered = tuple(text.encode() for version, _, text in parts if version == SCHEME)
    content = f"{message_id}.{timestamp}.".encode() + body
    return SignedMessage(content, offered, int(timestamp), base64.b64encode)


def parse_langfuse_signature(header: str | None, body: bytes) -> SignedMessage | None:
    """Parse the signature header of Langfuse; None when it is malformed.

    Source: `t=<seconds>,v1=<hex of HMAC-SHA256 over "t.body">`.
    """
    parts = [entry.strip().partition("=") for entry in (header or "").split(",")[:MAX_SIGNATURES]]
    times = [value for name, _, value in parts if name == "t" and _SECONDS.fullmatch(value)]
    if len(times) != 1:
        return None
    offered = tuple(value.encode() for name, _, value in parts if name == SCHEME)
    return SignedMessage(f"{times[0]}.".encode() + body, offered, int(times[0]), binascii.hexlify)


def find_signing_key(call: SignedMessage, keys: Sequence[bytes]) -> int | None:
    """The index of the key that signed a call, of at most `MAX_SECRETS` keys; None if none did.

    Cost:    the same for any number of keys, so that the time reveals nothing about them.
    """
    signer: int | None = None
    padded = [*keys, *[_DUMMY_KEY] * MAX_SECRETS][: max(MAX_SECRETS, len(keys))]
    for number, key in enumerate(padded):
        expected = call.encode(hmac.digest(key, call.content, "sha256"))
        # A list and no generator: `any` would stop at the first match and reveal its position.
        matches = [hmac.compare_digest(expected, offered) for offered in call.signatures]
        if any(matches) and number < len(keys):
            signer = number
    return signer


def clock_skew_s(call: SignedMessage, now: datetime) -> int:
    """Seconds between the signature and now; at most `MAX_CLOCK_DIFFERENCE` is accepted."""
    return abs(int(now.timestamp()) - call.signed_at)


def digest(*parts: str | bytes) -> str:
    """SHA-256 of the parts; lengths separate them, so that ("ab", "c") differs from ("a", "bc")."""
    raw = [part if isinstance(part, bytes) else part.encode() for part in parts]
    return hashlib.sha256(b"".join(b"%d:%s" % (len(part), part) for part in raw)).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class LangfuseEvent:
    """The fields of a Langfuse event that rules match.

    `run_options` are the benchmark, agent and run name that the sender asks for. `id` is None for
    a remote experiment: Langfuse sends no ID for it.
    """

    type: TriggerEventType
    id: str | None = None
    project_id: str | None = None
    dataset_name: str | None = None
    prompt_name: str | None = None
    labels: tuple[str, ...] = ()
    monitor_id: str | None = None
    severity: str | None = None
    run_options: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "LangfuseEvent":
        values = {to_snake(name): value for name, value in document.items()}
        labels, event_type = tuple(document["labels"]), TriggerEventType(document["type"])
        return cls(**{**values, "labels": labels, "type": event_type})

    def to_json(self) -> dict[str, Any]:
        """The fields by their names in the API, as `details` of a trigger event."""
        return {to_camel(name): value for name, value in asdict(self).items()}


PAYLOAD_FIELDS = {"benchmark": "benchmarkId", "agent": "agentId", "runName": "runName"}


def parse_langfuse_event(body: Any) -> LangfuseEvent:
    """Parse the body of a Langfuse event; type OTHER when the event cannot start a run."""
    document = _object(body)
    kind, event_id = _text(document, "type"), _text(document, "id")
    if kind == TriggerEventType.PROMPT_VERSION and document.get("action") != "deleted":
        return _prompt_version(event_id, _object(document.get("prompt")))
    if kind == TriggerEventType.MONITOR_ALERT:
        return _monitor_alert(event_id, _object(document.get("payload")))
    if kind is None and _text(document, "datasetName") is not None:
        return _remote_experiment(document)
    return LangfuseEvent(type=TriggerEventType.OTHER, id=event_id)


def rule_matches(event: LangfuseEvent, rule: LangfuseTrigger) -> bool:
    """Return whether an event has the type of a rule and every field value that the rule names."""
    if event.type != rule.event:
        return False
    match rule:
        case RemoteExperimentTrigger():
            pairs = [(rule.project_id, event.project_id), (rule.dataset_name, event.dataset_name)]
        case PromptVersionTrigger():
            labelled = rule.label if rule.label in event.labels else None
            pairs = [
                (rule.project_id, event.project_id),
                (rule.prompt_name, event.prompt_name),
                (rule.label, labelled),
            ]
        case MonitorAlertTrigger():
            pairs = [(rule.monitor_id, event.monitor_id), (rule.severity, event.severity)]
    return all(required is None or required == actual for required, actual in pairs)


def _prompt_version(event_id: str | None, prompt: dict[str, Any]) -> LangfuseEvent:
    labels = prompt.get("labels")
    return LangfuseEvent(
        type=TriggerEventType.PROMPT_VERSION,
        id=event_id,
        project_id=_text(prompt, "projectId"),
        prompt_name=_text(prompt, "name"),
        labels=tuple(_texts(labels if isinstance(labels, list) else [])),
    )


def _monitor_alert(event_id: str | None, payload: dict[str, Any]) -> LangfuseEvent:
    return LangfuseEvent(
        type=TriggerEventType.MONITOR_ALERT,
        id=event_id,
        monitor_id=_text(payload, "monitorId"),
        severity=_text(payload, "severity"),
    )


def _remote_experiment(document: dict[str, Any]) -> LangfuseEvent:
    payload = _parse_payload(document.get("payload"))
    options = {field: _text(payload, name) for name, field in PAYLOAD_FIELDS.items()}
    return LangfuseEvent(
        type=TriggerEventType.REMOTE_EXPERIMENT,
        project_id=_text(document, "projectId"),
        dataset_name=_text(document, "datasetName"),
        run_options={name: text for name, text in options.items() if text is not None},
    )


def _parse_payload(value: Any) -> dict[str, Any]:
    """The object that the sender typed; Langfuse usually sends it as a JSON string."""
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
    """The texts that a rule could name: not empty, not too long, storable."""
    texts = (text for text in values if isinstance(text, str) and 0 < len(text) <= MAX_TEXT_CHARS)
    return (text for text in texts if unstorable_reason(text) is None)
