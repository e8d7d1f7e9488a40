"""Redaction of secrets in logs."""

import logging
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from mosaico.core.logging import MASK, configure_logging, redact, redact_text
from mosaico.core.masking import is_secret_name

SECRET = "hunter2hunter2"


def redacted(**event: Any) -> str:
    return repr(redact(None, "info", event))


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {SECRET}",
        f"postgresql://mosaico:{SECRET}@127.0.0.1:5432/mosaico",
        # A password with an @: it ends at the last one before the host.
        f"postgresql://mosaico:p@ss{SECRET}@127.0.0.1/mosaico",
        f"https://user:{SECRET}@langfuse.example/api",
        f"connection failed: password={SECRET} host=db",
        f"key sk-lf-{SECRET} refused",
        f"token mosaico_a_{SECRET}_crc",
        f'{{"secret": "{SECRET}"}}'.replace('": "', "="),
        f"whsec_{SECRET}",
    ],
)
def test_redaction__secret_patterns_are_masked_in_any_text(text: str) -> None:
    assert SECRET not in redact_text(text)
    assert MASK in redact_text(text)


@pytest.mark.parametrize(
    "name",
    ["password", "langfuse_secret_key", "apiKey", "Authorization", "set-cookie", "access_token"],
)
def test_redaction__fields_with_secret_names_are_masked(name: str) -> None:
    assert SECRET not in redacted(**{name: SECRET})
    assert SECRET not in redacted(request={"headers": [{name: SECRET}]})


@pytest.mark.parametrize("name", ["input_tokens", "output_tokens", "secret_set", "api_key_id"])
def test_redaction__counts_and_ids_are_kept(name: str) -> None:
    assert not is_secret_name(name)


def test_redaction__ordinary_texts_are_unchanged() -> None:
    text = "run run-0192 of https://langfuse.example:3000/api took 3 s, 58 of 58 scored"
    assert redact_text(text) == text


def test_redaction__long_text_is_truncated() -> None:
    assert len(redact_text("x" * 100_000)) < 5_000


def test_redaction__recursive_structure_ends() -> None:
    nest: dict[str, Any] = {}
    # Libraries log objects that refer to themselves.
    nest["self"] = nest
    assert "…" in redacted(nest=nest)


@given(st.text())
def test_redaction__any_text_can_be_logged(text: str) -> None:
    assert isinstance(redact_text(text), str)


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_redaction__applies_to_library_logs_and_tracebacks(
    log_format: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    # `configure_logging` changes the logging of the whole process, also for later tests.
    before = (list(root.handlers), root.level)
    configure_logging(log_format)
    try:
        with structlog.contextvars.bound_contextvars(request_id="req-1"):
            try:
                int(f"password={SECRET}")
            except ValueError:
                structlog.stdlib.get_logger("app").exception("failed", api_key=SECRET)
            logging.getLogger("uvicorn.error").error("url %s", f"http://u:{SECRET}@h/")
            # Procrastinate logs each poll of its queue.
            logging.getLogger("procrastinate").info("chatter")
    finally:
        structlog.reset_defaults()
        root.handlers[:], root.level = before
    log_text = capsys.readouterr().err
    assert SECRET not in log_text
    assert log_text.count("req-1") == 2
    assert "ValueError" in log_text
    assert "chatter" not in log_text
