"""Logging: one line per event with its request id, and secrets redacted.

Log lines of libraries that use the standard module are included. Secrets are recognized by the name
of a field and by their form in a text; other secrets must not be logged.
"""

import logging
import re
import sys
from collections.abc import Mapping
from typing import Any, Literal

import structlog
from structlog.typing import EventDict, WrappedLogger

from mosaico.core.masking import is_secret_name
from mosaico.core.text import shorten

LogFormat = Literal["console", "json"]

MASK = "[redacted]"
MAX_TEXT = 4_000
MAX_DEPTH = 6

# Only their warnings and errors are logged: our own lines already describe each request.
QUIET_LOGGERS = (
    "alembic",
    "apscheduler",
    "asyncio",
    "httpcore",
    "httpcore2",
    "httpx",
    "httpx2",
    "langfuse",
    "procrastinate",
)
UVICORN_LOGGERS = ("uvicorn", "uvicorn.error", "uvicorn.access")

_SECRET_TEXTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE), rf"\1 {MASK}"),
    (re.compile(r"\bmosaico_\w{6,}"), MASK),
    (re.compile(r"\b(?:sk|pk|rk)-[\w-]{8,}"), MASK),
    (re.compile(r"\bwhsec_[\w+/=-]{8,}"), MASK),
    (re.compile(r"\bv1\.[\w-]+\.[\w-]{20,}={0,2}"), MASK),
    # Repeats are bounded: an unbounded one would take quadratic time on 4,000 letters.
    # The last @ before the path ends the userinfo, because a password may contain one.
    (re.compile(r"(\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@]*):[^\s/]*@", re.IGNORECASE), rf"\1:{MASK}@"),
    (
        re.compile(
            r"(\b[\w-]{0,40}(?:password|passwd|secret|api_?key|token)\s*[=:]\s*)[\"']?[^\s\"'&,;]{4,}",
            re.IGNORECASE,
        ),
        rf"\1{MASK}",
    ),
)


def configure_logging(log_format: LogFormat) -> None:
    """Send every log line of this process to standard error, as readable lines or as JSON."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    _install_handler(log_format, shared)


def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Redact the values of an event; the last processor before rendering."""
    return {key: _redact_value(value, key, MAX_DEPTH) for key, value in event.items()}


def redact_text(text: str) -> str:
    """The text with secrets masked, truncated for a log line."""
    redacted = shorten(text, MAX_TEXT)
    for pattern, replacement in _SECRET_TEXTS:
        redacted = pattern.sub(replacement, redacted)
    return redacted


def _redact_value(value: Any, name: str, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if is_secret_name(name):
        return MASK
    if isinstance(value, int | float):
        return value
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        return _redact_members(value, name, depth - 1)
    # A traceback is redacted line by line, so that it is not truncated: its end matters most.
    return _redact_lines(str(value)) if name == "exception" else redact_text(str(value))


def _redact_members(value: Any, name: str, depth: int) -> Any:
    if depth == 0:
        return "…"
    if isinstance(value, Mapping):
        return {str(key): _redact_value(member, str(key), depth) for key, member in value.items()}
    return [_redact_value(member, name, depth) for member in value]


def _redact_lines(text: str) -> str:
    return "\n".join(redact_text(line) for line in text.splitlines())


def _install_handler(log_format: LogFormat, shared: list[structlog.typing.Processor]) -> None:
    """Make our handler the only one of the standard module.

    `logging.config.dictConfig` is not used, because it closes all other handlers of the process.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                redact,
                _renderer(log_format),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    for name in (*QUIET_LOGGERS, *UVICORN_LOGGERS):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], True
        logger.setLevel(logging.WARNING)
    # APScheduler warns when a tick takes longer than its interval, which needs no action.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)


def _renderer(log_format: LogFormat) -> structlog.typing.Processor:
    if log_format == "json":
        return structlog.processors.JSONRenderer(ensure_ascii=False, default=str)
    return structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
    )
