"""What a request means that brought no whole answer."""

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


def test_a_certificate_that_is_not_trusted_is_no_matter_of_time() -> None:
    refused = ssl.SSLCertVerificationError("self-signed certificate")
    assert classify_transport_error(caused_by(refused)).kind is FailureKind.BAD_CERTIFICATE
    assert (
        classify_transport_error(caused_by(caused_by(refused))).kind is FailureKind.BAD_CERTIFICATE
    )


def test_any_other_broken_connection_is() -> None:
    for error in (
        caused_by(ConnectionRefusedError()),
        caused_by(ssl.SSLError("bad record")),
        httpx.ReadTimeout("too slow"),
        httpx.RemoteProtocolError("it ended early"),
    ):
        assert classify_transport_error(error).kind is FailureKind.UNREACHABLE


def test_an_answer_is_told_by_what_is_wrong_with_it() -> None:
    assert classify_transport_error(OversizedResponse()).kind is FailureKind.TOO_LARGE
    assert (
        classify_transport_error(httpx.DecodingError("broken gzip")).kind is FailureKind.MALFORMED
    )


def test_a_failure_always_says_something() -> None:
    assert classify_transport_error(httpx.ReadTimeout("")).detail == "ReadTimeout"


def test_words_that_are_nested_without_end_are_cut_like_any_other_text() -> None:
    asked = httpx.Request("GET", "https://langfuse.example/api")
    found = classify_response(httpx.Response(500, text="[" * 200_000, request=asked))
    assert (found.kind, found.detail) == (FailureKind.SERVER_ERROR, "[" * 200)
