"""Pure rules of triggers: signatures, Langfuse events and rule matching."""

import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from standardwebhooks.webhooks import Webhook

from mosaico.benchmarks.config_types import LangfuseTrigger
from mosaico.triggers.rules import (
    MAX_SECRETS,
    LangfuseEvent,
    TriggerEventType,
    clock_skew_s,
    decode_key,
    find_signing_key,
    generate_secret,
    parse_langfuse_event,
    parse_langfuse_signature,
    parse_standard_signature,
    rule_matches,
)

# The public test vector of Standard Webhooks.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
MESSAGE_ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
TIMESTAMP = "1614265330"
BODY = b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

LANGFUSE_SECRET = "lf-whsec_0123456789abcdef"

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
ids = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40)


def signed_by(
    secret: str,
    signatures: str = SIGNATURE,
    *,
    message_id: str = MESSAGE_ID,
    timestamp: str = TIMESTAMP,
    body: bytes = BODY,
) -> bool:
    call = parse_standard_signature(message_id, timestamp, signatures, body)
    return call is not None and find_signing_key(call, [decode_key(secret)]) == 0


def test_find_signing_key__accepts_the_public_test_vector() -> None:
    assert signed_by(SECRET)


@pytest.mark.parametrize(
    "signatures",
    [
        # Standard Webhooks sends one signature for each secret of a rotation, `v1a` for asymmetric
        # keys, and versions to come.
        f"v1a,AAAA {SIGNATURE}",
        f"v1,bm9wZQ== {SIGNATURE}",
        f"{SIGNATURE} v2,whatever",
        f" {SIGNATURE}  ",
    ],
)
def test_find_signing_key__one_valid_signature_is_enough(signatures: str) -> None:
    assert signed_by(SECRET, signatures)


def other(byte: str) -> str:
    return "B" if byte == "A" else "A"


def test_find_signing_key__any_changed_signature_character_is_rejected() -> None:
    for at, byte in enumerate(SIGNATURE):
        assert not signed_by(SECRET, SIGNATURE[:at] + other(byte) + SIGNATURE[at + 1 :]), at


def test_find_signing_key__any_changed_body_bit_is_rejected() -> None:
    for at in range(len(BODY)):
        for bit in range(8):
            changed = BODY[:at] + bytes([BODY[at] ^ 1 << bit]) + BODY[at + 1 :]
            assert not signed_by(SECRET, body=changed)
    assert not signed_by(SECRET, body=BODY + b"\n")


def test_find_signing_key__id_and_time_are_signed() -> None:
    assert not signed_by(SECRET, message_id=MESSAGE_ID.lower())
    assert not signed_by(SECRET, timestamp="1614265331")
    assert not signed_by(SECRET, timestamp=f"0{TIMESTAMP}")


@pytest.mark.parametrize(
    ("message_id", "timestamp", "signatures"),
    [
        (None, TIMESTAMP, SIGNATURE),
        ("", TIMESTAMP, SIGNATURE),
        ("with blank", TIMESTAMP, SIGNATURE),
        ("x" * 256, TIMESTAMP, SIGNATURE),
        ("ü", TIMESTAMP, SIGNATURE),
        (MESSAGE_ID, None, SIGNATURE),
        (MESSAGE_ID, "", SIGNATURE),
        (MESSAGE_ID, "1614265330.0", SIGNATURE),
        (MESSAGE_ID, "-5", SIGNATURE),
        # `"²".isdigit()` is true, and `int` raises for it.
        (MESSAGE_ID, "²", SIGNATURE),
        (MESSAGE_ID, "9" * 13, SIGNATURE),
        (MESSAGE_ID, TIMESTAMP, None),
    ],
)
def test_parse_standard_signature__malformed_headers_are_none(
    message_id: str | None, timestamp: str | None, signatures: str | None
) -> None:
    assert parse_standard_signature(message_id, timestamp, signatures, BODY) is None


@given(ids, st.integers(0, 4_000_000_000), texts)
def test_find_signing_key__accepts_calls_of_the_reference_library(
    message_id: str, seconds: int, body: str
) -> None:
    secret = generate_secret()
    signature = Webhook(secret).sign(message_id, datetime.fromtimestamp(seconds, UTC), body)
    assert signed_by(
        secret,
        signature,
        message_id=message_id,
        timestamp=str(seconds),
        body=body.encode(),
    )
    assert not signed_by(
        generate_secret(),
        signature,
        message_id=message_id,
        timestamp=str(seconds),
        body=body.encode(),
    )


def test_generate_secret__reference_library_verifies_our_signature() -> None:
    secret, now = generate_secret(), str(int(datetime.now(UTC).timestamp()))
    call = parse_standard_signature("msg_1", now, "", b'{"a": 1}')
    assert call is not None
    signature = call.encode(hmac.digest(decode_key(secret), call.content, "sha256")).decode()
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": now,
        "webhook-signature": f"v1,{signature}",
    }
    assert Webhook(secret).verify('{"a": 1}', headers) == {"a": 1}


def test_find_signing_key__computes_the_same_number_of_digests_without_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call = parse_standard_signature(MESSAGE_ID, TIMESTAMP, SIGNATURE, BODY)
    assert call is not None
    computed: list[bytes] = []
    real = hmac.digest

    def counted(key: bytes, content: bytes, name: str) -> bytes:
        computed.append(key)
        return real(key, content, name)

    monkeypatch.setattr(hmac, "digest", counted)
    counts = []
    for keys in ([], [decode_key(SECRET)], [decode_key(generate_secret())] * MAX_SECRETS):
        find_signing_key(call, keys)
        counts.append(len(computed))
        computed.clear()
    # The time of an answer must not tell how many secrets there are.
    assert counts == [MAX_SECRETS] * 3


@pytest.mark.parametrize(("now", "off"), [(1614265330, 0), (1614265630, 300), (1614265029, 301)])
def test_clock_skew__counts_past_and_future(now: int, off: int) -> None:
    call = parse_standard_signature(MESSAGE_ID, TIMESTAMP, SIGNATURE, BODY)
    assert call is not None
    assert clock_skew_s(call, datetime.fromtimestamp(now, UTC)) == off


def langfuse_header(body: bytes, seconds: int = 1_700_000_000) -> str:
    """Sign as the Langfuse documentation describes; the whole secret is the key."""
    content = f"{seconds}.".encode() + body
    return (
        f"t={seconds},v1={hmac.new(LANGFUSE_SECRET.encode(), content, hashlib.sha256).hexdigest()}"
    )


def signed_by_langfuse(header: str | None, body: bytes) -> bool:
    call = parse_langfuse_signature(header, body)
    return call is not None and find_signing_key(call, [decode_key(LANGFUSE_SECRET)]) == 0


@given(st.binary(max_size=60), st.integers(0, 4_000_000_000))
def test_parse_langfuse_signature__accepts_langfuse_signatures(body: bytes, seconds: int) -> None:
    header = langfuse_header(body, seconds)
    assert signed_by_langfuse(header, body)
    assert not signed_by_langfuse(header, body + b" ")
    assert not signed_by_langfuse(header.replace(f"t={seconds}", f"t={seconds + 1}"), body)


def test_parse_langfuse_signature__any_changed_character_is_rejected() -> None:
    header = langfuse_header(b"{}")
    # Also those of the names and separators, which are not signed.
    for at, byte in enumerate(header):
        assert not signed_by_langfuse(header[:at] + other(byte) + header[at + 1 :], b"{}"), at


@pytest.mark.parametrize(
    "header", [None, "", "v1=00", "t=1", "t=x,v1=00", "t=1,t=2,v1=00", "t=1;v1=00"]
)
def test_parse_langfuse_signature__malformed_headers_are_none(header: str | None) -> None:
    assert not signed_by_langfuse(header, b"{}")


REMOTE = {"projectId": "p-1", "datasetId": "d-1", "datasetName": "support"}


@pytest.mark.parametrize(
    ("payload", "asks"),
    [
        (
            '{"benchmark": "bench-001", "runName": "run-1"}',
            {"benchmarkId": "bench-001", "runName": "run-1"},
        ),
        ({"agent": "agent-001"}, {"agentId": "agent-001"}),
        ("not JSON", {}),
        ('"a text"', {}),
        ("[" * 5000, {}),
        ('{"benchmark": 7, "runName": "", "agent": "\\u0000"}', {}),
        ({"runName": "x" * 201}, {}),
        (None, {}),
    ],
)
def test_parse_langfuse_event__remote_experiment_with_run_options(
    payload: Any, asks: dict[str, str]
) -> None:
    # The payload is what a person typed into the form of Langfuse: any text.
    event = parse_langfuse_event({**REMOTE, "payload": payload})
    assert (event.type, event.id, event.project_id, event.dataset_name, event.run_options) == (
        TriggerEventType.REMOTE_EXPERIMENT,
        None,
        "p-1",
        "support",
        asks,
    )


def prompt_version(action: str = "created") -> dict[str, Any]:
    prompt = {"id": "v", "name": "greeting", "projectId": "p-1", "labels": ["latest", "production"]}
    return {"id": "e-1", "type": "prompt-version", "action": action, "prompt": prompt}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
named = st.dictionaries(
    st.sampled_from(["id", "type", "action", "prompt", "payload", "datasetName", "projectId"]),
    json_values | st.sampled_from(["prompt-version", "monitor-alert"]),
)


@given(json_values | named)
def test_parse_langfuse_event__any_body_gives_a_storable_event(body: Any) -> None:
    from dataclasses import asdict

    event = parse_langfuse_event(body)
    # Stored with the event, and read again by the job that handles it.
    assert LangfuseEvent.from_json(json.loads(json.dumps(asdict(event)))) == event


def rule(**fields: Any) -> LangfuseTrigger:
    parsed: LangfuseTrigger = TypeAdapter(LangfuseTrigger).validate_python(fields)
    return parsed


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"event": "remote-experiment"}, True),
        ({"event": "remote-experiment", "datasetName": "support"}, True),
        ({"event": "remote-experiment", "datasetName": "support", "projectId": "p-1"}, True),
        ({"event": "remote-experiment", "datasetName": "support", "projectId": "p-2"}, False),
        ({"event": "remote-experiment", "datasetName": "Support"}, False),
        ({"event": "prompt-version"}, False),
        ({"event": "monitor-alert"}, False),
    ],
)
def test_rule_matches__all_named_fields_must_match(fields: Any, expected: bool) -> None:
    assert rule_matches(parse_langfuse_event(REMOTE), rule(**fields)) is expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, True),
        ({"promptName": "greeting", "label": "production"}, True),
        ({"label": "staging"}, False),
        ({"promptName": "farewell"}, False),
        ({"projectId": "p-2"}, False),
    ],
)
def test_rule_matches__prompt_label(fields: Any, expected: bool) -> None:
    event = parse_langfuse_event(prompt_version())
    assert rule_matches(event, rule(event="prompt-version", **fields)) is expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [({}, True), ({"monitorId": "m-1"}, True), ({"severity": "warning"}, False)],
)
def test_rule_matches__monitor_id(fields: Any, expected: bool) -> None:
    event = LangfuseEvent(
        type=TriggerEventType.MONITOR_ALERT, monitor_id="m-1", severity="critical"
    )
    assert rule_matches(event, rule(event="monitor-alert", **fields)) is expected
