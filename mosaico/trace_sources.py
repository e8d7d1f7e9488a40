"""What a trace source is made of; the entry point group `mosaico.trace_sources` registers it."""

from app.core.encryption import Secret
from app.core.errors import Unavailable
from app.core.http.client import outbound_client
from app.core.registry import AddPlugin
from app.core.resources import Resources
from app.traces.registry import (
    TRACE_SOURCES,
    CollectionFailed,
    CredentialsRefused,
    NewScore,
    SourceCheck,
    SourceRun,
    SourceSpec,
    TracePage,
    TraceQuery,
    TraceSource,
)
from app.traces.types import ToolCall, Trace, TraceOutcome

__all__ = (
    "TRACE_SOURCES",
    "AddPlugin",
    "CollectionFailed",
    "CredentialsRefused",
    "NewScore",
    "Resources",
    "Secret",
    "SourceCheck",
    "SourceRun",
    "SourceSpec",
    "ToolCall",
    "Trace",
    "TraceOutcome",
    "TracePage",
    "TraceQuery",
    "TraceSource",
    "Unavailable",
    "outbound_client",
)
