"""Hostile request bodies and paths are refused and store nothing."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.integration.edge.toy_things import THINGS, ThingStore

JSON = {"Content-Type": "application/json"}
REMEDIES = ("send", "remove", "leave", "encode", "change", "should", "correct")
MIB = 1024 * 1024


def post(client: httpx.Client, body: bytes | Iterator[bytes], **headers: str) -> httpx.Response:
    return client.post(THINGS, content=body, headers={**JSON, **headers})


def refused(response: httpx.Response, *statuses: int) -> dict[str, Any]:
    """The problem document, which says what to do."""
    assert response.status_code in statuses, response.text[:300]
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert problem["status"] == response.status_code
    assert problem["instance"] == response.headers["x-request-id"]
    problem_text = problem["detail"] + " ".join(
        item["detail"] for item in problem.get("errors", [])
    )
    assert any(remedy in problem_text for remedy in REMEDIES), problem_text
    return problem


HOSTILE = {
    "NaN": b'{"name": "a", "share": NaN}',
    "Infinity": b'{"name": "a", "share": Infinity}',
    "minus Infinity": b'{"name": "a", "share": -Infinity}',
    "1e400": b'{"name": "a", "share": 1e400}',
    "NaN as text": b'{"name": "a", "share": "nan"}',
    "NUL escaped": b'{"name": "a", "text": "x\\u0000"}',
    "NUL raw": b'{"name": "a", "text": "x\x00"}',
    "surrogate escaped": b'{"name": "a", "text": "\\ud800"}',
    "surrogate raw": b'{"name": "a", "text": "\xed\xa0\x80"}',
    "surrogate in an object": b'{"name": "a", "extras": {"k": "\\udfff"}}',
    "30 digits": b'{"name": "a", "parts": [{"partCount": 123456789012345678901234567890}]}',
    "30 digits in an object": b'{"name": "a", "extras": {"k": 123456789012345678901234567890}}',
    "a million digits": b'{"name": "a", "share": ' + b"9" * 1_000_000 + b"}",
    "true as a number": b'{"name": "a", "parts": [{"partCount": true}]}',
    "duplicate key": b'{"name": "a", "name": "b"}',
    "depth 1000": b'{"name": "a", "extras": ' + b'{"k":' * 1000 + b"1" + b"}" * 1001,
    "depth 100000": b"[" * 100_000,
    "invalid UTF-8": b'{"name": "\xff\xfe"}',
    "UTF-16": '{"name": "a"}'.encode("utf-16"),
    "extra field": b'{"name": "a", "nmae": "b"}',
    "empty": b"",
    "blanks": b"   ",
    "null": b"null",
    "array": b"[]",
    "text": b'"a"',
    "two values": b'{"name": "a"} {"name": "b"}',
    "cut off": b'{"name": "a',
    "too many wrong fields": json.dumps({f"k{i}": i for i in range(5000)}).encode(),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_request_body__hostile_body_is_refused_with_a_remedy(
    name: str, client: httpx.Client, thing_store: ThingStore
) -> None:
    problem = refused(post(client, HOSTILE[name]), 400, 422)
    assert len(json.dumps(problem)) < 10_000
    assert thing_store.things == []


def test_request_body__2_mib_are_refused_by_content_length(
    client: httpx.Client, thing_store: ThingStore
) -> None:
    body = b'{"name": "a", "text": "' + b"x" * 2 * MIB + b'"}'
    assert refused(post(client, body), 413)["maxBytes"] == MIB
    assert thing_store.things == []


def test_request_body__2_mib_in_chunks_are_refused_by_counting(
    client: httpx.Client, thing_store: ThingStore
) -> None:
    # 2 MiB, without a Content-Length.
    chunks = (b" " * 65_536 for _ in range(32))
    refused(post(client, chunks), 413)
    assert thing_store.things == []


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "jsonp", ""])
def test_request_body__other_content_type_is_refused(
    kind: str, client: httpx.Client, thing_store: ThingStore
) -> None:
    refused(post(client, b'{"name": "a"}', **{"Content-Type": kind}), 415)
    assert thing_store.things == []


@pytest.mark.parametrize(
    "address",
    [
        f"{THINGS}?cursor=%00",
        f"{THINGS}?cursor=%ff",
        f"{THINGS}?cursor=%ED%A0%80",
        f"{THINGS}/a%00b",
        f"{THINGS}/%ED%A0%80",
        f"{THINGS}?limit=0",
        f"{THINGS}?limit=201",
        f"{THINGS}?limit=true",
        f"{THINGS}?limit=123456789012345678901234567890",
        f"{THINGS}?limit=" + "9" * 5000,
        f"{THINGS}?cursor=" + "A" * 2049,
    ],
)
def test_request_path__hostile_path_is_refused(address: str, client: httpx.Client) -> None:
    refused(client.get(address), 400, 404, 422)


def test_request_body__interrupted_upload_stores_nothing(
    client: httpx.Client, thing_store: ThingStore
) -> None:
    address = (client.base_url.host, client.base_url.port or 80)
    with socket.create_connection(address) as raw:
        raw.sendall(
            f"POST {THINGS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            'Content-Length: 1000\r\n\r\n{"name": "a"}'.encode()
        )
    assert client.get("/healthz").status_code == 200
    assert thing_store.things == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
thing_like = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ("id", "name", "text", "share", "parts", "extras", "other"), json_values
    ),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(body=json_values | thing_like)
def test_request_body__no_json_causes_a_server_error(body: Any, client: httpx.Client) -> None:
    raw = json.dumps(body).encode()
    response = post(client, raw)
    assert response.status_code < 500, raw
    if response.status_code != 201:
        refused(response, 400, 415, 422)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=st.text(min_size=1))
def test_request_path__no_path_or_parameter_causes_a_server_error(
    text: str, client: httpx.Client
) -> None:
    assert client.get(THINGS, params={"share": text, "cursor": text}).status_code < 500
    path = httpx.QueryParams({"x": text.encode("utf-8", "surrogatepass")})
    assert client.get(f"{THINGS}/{str(path)[2:]}").status_code < 500
