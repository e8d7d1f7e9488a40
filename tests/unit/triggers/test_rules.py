"""Who signed a call, what an event of Langfuse says, which rules fit it, which runs are new."""

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

from app.benchmarks.event_triggers import EventTriggers, LangfuseTrigger
from app.triggers.rules import (
    MAX_SECRETS,
    LangfuseEvent,
    TriggerEventType,
    clock_skew_s,
    decode_key,
    digest,
    find_signing_key,
    generate_secret,
    parse_langfuse_event,
    parse_langfuse_signature,
    parse_standard_signature,
    rule_matches,
)

# The public known answer of Standard Webhooks.
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


def test_the_public_known_answer_is_accepted() -> None:
    assert signed_by(SECRET)


@pytest.mark.parametrize(
    "signatures",
    [
        f"v1a,AAAA {SIGNATURE}",
        f"v1,bm9wZQ== {SIGNATURE}",
        f"{SIGNATURE} v2,whatever",
        f" {SIGNATURE}  ",
    ],
)
def test_one_right_signature_among_others_is_enough(signatures: str) -> None:
    assert signed_by(SECRET, signatures)


def other(byte: str) -> str:
    return "B" if byte == "A" else "A"


@pytest.mark.parametrize("at", range(len(SIGNATURE)))
def test_each_character_of_the_signature_counts(at: int) -> None:
    assert not signed_by(SECRET, SIGNATURE[:at] + other(SIGNATURE[at]) + SIGNATURE[at + 1 :])


def test_each_bit_of_the_body_counts() -> None:
    for at in range(len(BODY)):
        for bit in range(8):
            changed = BODY[:at] + bytes([BODY[at] ^ 1 << bit]) + BODY[at + 1 :]
            assert not signed_by(SECRET, body=changed)
    assert not signed_by(SECRET, body=BODY + b"\n")


def test_id_and_time_are_signed_too() -> None:
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
        (MESSAGE_ID, "²", SIGNATURE),
        (MESSAGE_ID, "9" * 13, SIGNATURE),
        (MESSAGE_ID, TIMESTAMP, None),
    ],
)
def test_headers_that_cannot_be_read_are_no_call(
    message_id: str | None, timestamp: str | None, signatures: str | None
) -> None:
    assert parse_standard_signature(message_id, timestamp, signatures, BODY) is None


@given(ids, st.integers(0, 4_000_000_000), texts)
def test_what_the_reference_signs_is_accepted(message_id: str, seconds: int, body: str) -> None:
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


def test_what_is_signed_by_hand_is_accepted_by_the_reference() -> None:
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


def test_the_signer_is_found_among_several_and_never_beyond_them() -> None:
    call = parse_standard_signature(MESSAGE_ID, TIMESTAMP, SIGNATURE, BODY)
    assert call is not None
    others = [decode_key(generate_secret()) for _ in range(MAX_SECRETS - 1)]
    assert find_signing_key(call, [*others, decode_key(SECRET)]) == MAX_SECRETS - 1
    assert find_signing_key(call, others) is None
    assert find_signing_key(call, []) is None


def test_as_many_digests_are_computed_without_a_secret_as_with_some(
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
    assert counts == [MAX_SECRETS] * 3


@pytest.mark.parametrize(("now", "off"), [(1614265330, 0), (1614265630, 300), (1614265029, 301)])
def test_the_age_of_a_signature_is_counted_both_ways(now: int, off: int) -> None:
    call = parse_standard_signature(MESSAGE_ID, TIMESTAMP, SIGNATURE, BODY)
    assert call is not None
    assert clock_skew_s(call, datetime.fromtimestamp(now, UTC)) == off


def langfuse_header(body: bytes, seconds: int = 1_700_000_000) -> str:
    """As the documentation of Langfuse describes it; the whole text of the secret is the key."""
    content = f"{seconds}.".encode() + body
    return (
        f"t={seconds},v1={hmac.new(LANGFUSE_SECRET.encode(), content, hashlib.sha256).hexdigest()}"
    )


def signed_by_langfuse(header: str | None, body: bytes) -> bool:
    call = parse_langfuse_signature(header, body)
    return call is not None and find_signing_key(call, [decode_key(LANGFUSE_SECRET)]) == 0


@given(st.binary(max_size=60), st.integers(0, 4_000_000_000))
def test_what_langfuse_signs_is_accepted(body: bytes, seconds: int) -> None:
    header = langfuse_header(body, seconds)
    assert signed_by_langfuse(header, body)
    assert not signed_by_langfuse(header, body + b" ")
    assert not signed_by_langfuse(header.replace(f"t={seconds}", f"t={seconds + 1}"), body)


@pytest.mark.parametrize("at", range(len(langfuse_header(b"{}"))))
def test_each_character_of_a_signature_of_langfuse_counts(at: int) -> None:
    header = langfuse_header(b"{}")
    assert not signed_by_langfuse(header[:at] + other(header[at]) + header[at + 1 :], b"{}")


@pytest.mark.parametrize(
    "header", [None, "", "v1=00", "t=1", "t=x,v1=00", "t=1,t=2,v1=00", "t=1;v1=00"]
)
def test_other_headers_are_no_signature_of_langfuse(header: str | None) -> None:
    assert not signed_by_langfuse(header, b"{}")


def test_parts_of_a_digest_do_not_run_into_each_other() -> None:
    assert len({digest("ab", "c"), digest("a", "bc"), digest("abc"), digest("ab", "c", "")}) == 4


REMOTE = {"projectId": "p-1", "datasetId": "d-1", "datasetName": "support"}


@pytest.mark.parametrize(
    ("payload", "asks"),
    [
        (
            '{"benchmark": "bench-001", "runName": "night-1"}',
            {"benchmark_id": "bench-001", "run_name": "night-1"},
        ),
        ({"agent": "agent-001"}, {"agent_id": "agent-001"}),
        ("not JSON", {}),
        ('"a text"', {}),
        ("[" * 5000, {}),
        ('{"benchmark": 7, "runName": "", "agent": "\\u0000"}', {}),
        ({"runName": "x" * 201}, {}),
        (None, {}),
    ],
)
def test_a_remote_experiment_says_what_it_asks_for(payload: Any, asks: dict[str, str]) -> None:
    told = parse_langfuse_event({**REMOTE, "payload": payload})
    assert (told.type, told.id, told.project_id, told.dataset_name, told.run_options) == (
        TriggerEventType.REMOTE_EXPERIMENT,
        None,
        "p-1",
        "support",
        asks,
    )


def prompt_version(action: str = "created") -> dict[str, Any]:
    prompt = {"id": "v", "name": "greeting", "projectId": "p-1", "labels": ["latest", "production"]}
    return {"id": "e-1", "type": "prompt-version", "action": action, "prompt": prompt}


def test_a_prompt_version_is_an_event_unless_it_was_deleted() -> None:
    told = parse_langfuse_event(prompt_version())
    assert (told.type, told.id, told.prompt_name, told.labels) == (
        TriggerEventType.PROMPT_VERSION,
        "e-1",
        "greeting",
        ("latest", "production"),
    )
    assert parse_langfuse_event(prompt_version("updated")).type is TriggerEventType.PROMPT_VERSION
    assert parse_langfuse_event(prompt_version("deleted")).type is TriggerEventType.OTHER


def test_a_monitor_alert_names_its_monitor() -> None:
    payload = {"monitorId": "m-1", "severity": "critical", "message": "too slow"}
    told = parse_langfuse_event({"id": "e-2", "type": "monitor-alert", "payload": payload})
    assert (told.type, told.id, told.monitor_id, told.severity) == (
        TriggerEventType.MONITOR_ALERT,
        "e-2",
        "m-1",
        "critical",
    )


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
def test_whatever_langfuse_sends_is_some_event_that_can_be_stored_and_read_again(body: Any) -> None:
    from dataclasses import asdict

    told = parse_langfuse_event(body)
    assert LangfuseEvent.from_json(json.loads(json.dumps(asdict(told)))) == told


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
def test_a_rule_fits_when_all_that_it_names_is_so(fields: Any, expected: bool) -> None:
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
def test_a_rule_for_prompts_may_name_a_label(fields: Any, expected: bool) -> None:
    told = parse_langfuse_event(prompt_version())
    assert rule_matches(told, rule(event="prompt-version", **fields)) is expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [({}, True), ({"monitorId": "m-1"}, True), ({"severity": "warning"}, False)],
)
def test_a_rule_for_monitors_may_name_one(fields: Any, expected: bool) -> None:
    told = LangfuseEvent(type=TriggerEventType.MONITOR_ALERT, monitor_id="m-1", severity="critical")
    assert rule_matches(told, rule(event="monitor-alert", **fields)) is expected


def test_every_trigger_is_off_unless_it_is_turned_on() -> None:
    assert not EventTriggers().has_any
    assert EventTriggers.model_validate({"newRun": {}}).has_any
    assert EventTriggers.model_validate({"langfuse": [{"event": "monitor-alert"}]}).has_any
