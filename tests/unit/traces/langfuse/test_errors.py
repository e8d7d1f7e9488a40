"""Classification of failed requests."""

import ssl

import httpx

from app.core.http.transport import OversizedResponse
from app.traces.sources.langfuse.errors import (
    FailureKind,
    classify_response,
    classify_transport_error,
)


def caused_by(cause: Exception) -> httpx.ConnectError:
    error = httpx.ConnectError("no connection")
    error.__cause__ = cause
    return error


def test_classify_transport_error__untrusted_certificate_is_permanent() -> None:
    refused = ssl.SSLCertVerificationError("self-signed certificate")
    assert classify_transport_error(caused_by(refused)).kind is FailureKind.BAD_CERTIFICATE
    assert (
        classify_transport_error(caused_by(caused_by(refused))).kind is FailureKind.BAD_CERTIFICATE
    )


def test_classify_transport_error__broken_connection_is_unreachable() -> None:
    for error in (
        caused_by(ConnectionRefusedError()),
        caused_by(ssl.SSLError("bad record")),
        httpx.ReadTimeout("too slow"),
        httpx.RemoteProtocolError("it ended early"),
    ):
        assert classify_transport_error(error).kind is FailureKind.UNREACHABLE


def test_classify_transport_error__oversized_and_undecodable_responses() -> None:
    assert classify_transport_error(OversizedResponse()).kind is FailureKind.TOO_LARGE
    assert (
        classify_transport_error(httpx.DecodingError("broken gzip")).kind is FailureKind.MALFORMED
    )


def test_classify_transport_error__detail_is_never_empty() -> None:
    assert classify_transport_error(httpx.ReadTimeout("")).detail == "ReadTimeout"


def test_classify_response__deeply_nested_message_is_truncated() -> None:
    request = httpx.Request("GET", "https://langfuse.example/api")
    failure = classify_response(httpx.Response(500, text="[" * 200_000, request=request))
    assert (failure.kind, failure.detail) == (FailureKind.SERVER_ERROR, "[" * 200)
