"""What a request means that brought no whole answer."""

import ssl

import httpx

from app.core.http.client import AnswerTooLarge
from app.traces.sources.langfuse.errors import Kind, failure_of_answer, failure_of_error


def caused_by(cause: Exception) -> httpx.ConnectError:
    error = httpx.ConnectError("no connection")
    error.__cause__ = cause
    return error


def test_a_certificate_that_is_not_trusted_is_no_matter_of_time() -> None:
    refused = ssl.SSLCertVerificationError("self-signed certificate")
    assert failure_of_error(caused_by(refused)).kind is Kind.UNTRUSTED
    assert failure_of_error(caused_by(caused_by(refused))).kind is Kind.UNTRUSTED


def test_any_other_broken_connection_is() -> None:
    for error in (
        caused_by(ConnectionRefusedError()),
        caused_by(ssl.SSLError("bad record")),
        httpx.ReadTimeout("too slow"),
        httpx.RemoteProtocolError("it ended early"),
    ):
        assert failure_of_error(error).kind is Kind.UNREACHABLE


def test_an_answer_is_told_by_what_is_wrong_with_it() -> None:
    assert failure_of_error(AnswerTooLarge()).kind is Kind.TOO_LARGE
    assert failure_of_error(httpx.DecodingError("broken gzip")).kind is Kind.GARBLED


def test_a_failure_always_says_something() -> None:
    assert failure_of_error(httpx.ReadTimeout("")).detail == "ReadTimeout"


def test_words_that_are_nested_without_end_are_cut_like_any_other_text() -> None:
    asked = httpx.Request("GET", "https://langfuse.example/api")
    found = failure_of_answer(httpx.Response(500, text="[" * 200_000, request=asked))
    assert (found.kind, found.detail) == (Kind.SERVER, "[" * 200)
