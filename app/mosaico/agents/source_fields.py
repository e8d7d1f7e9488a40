"""The trace source of an agent in requests: `source`, or the `langfuse…` fields of the kind Langfuse."""

from collections.abc import Mapping
from typing import Any, Final

from mosaico.agents.models import Agent
from mosaico.agents.schemas import AgentBody, AgentSource
from mosaico.core.errors import AppError, ErrorItem, Invalid
from mosaico.traces.registry import TRACE_SOURCES

LANGFUSE, LOCAL = "langfuse", "local"
SECRET_COLUMN: Final = "langfuse_secret_key"  # noqa: S105 - the name of a column
# They have the names of the first tool: an encrypted text is bound to the name of its column.
COLUMNS: Final[Mapping[str, str]] = {
    "project": "langfuse_project_name",
    "url": "langfuse_url",
    "public_key": "langfuse_public_key",
    "secret_key": SECRET_COLUMN,
}


class TwoSources(Invalid):
    """The request has `source` and `langfuse…` fields, which are one thing; send one of the two."""


def is_langfuse(kind: str | None) -> bool:
    """Return whether the `langfuse…` fields are those of an agent with this kind of source."""
    return kind in (None, LANGFUSE)


def default_source(agent: Agent) -> str:
    """The trace source of a benchmark that names none: that of the agent, Langfuse for an agent with a key of it.

    With one key of the two, the run fails and names the other: uploads would be an answer to another question.
    """
    has_key = agent.langfuse_public_key is not None or agent.langfuse_secret_key is not None
    return agent.source_kind or (LANGFUSE if has_key else LOCAL)


def shown_source(agent: Agent) -> str | None:
    """The kind of the `source` of an agent; None for one without a key, which may have other `langfuse…` fields."""
    kind = default_source(agent)
    return None if agent.source_kind is None and kind == LOCAL else kind


def source_columns(
    body: AgentBody, values: Mapping[str, Any], agent: Agent | None = None
) -> dict[str, Any]:
    """The values to write, with the columns of `source` in its place; `agent` is the stored one.

    Raises: `TwoSources`; `Invalid` for an unknown kind.
    """
    columns = {name: value for name, value in values.items() if name != "source"}
    given = {name for name in COLUMNS.values() if columns.get(name) is not None}
    source: AgentSource | None = values.get("source")
    if source is not None:
        if given:
            raise TwoSources(errors=[_error("", "is another form of the langfuse… fields")])
        _require_kind(source.kind)
        columns |= {COLUMNS[name]: getattr(source, name) for name in COLUMNS}
        if "secret_key" not in source.model_fields_set:
            del columns[SECRET_COLUMN]
        return {**columns, "source_kind": source.kind}
    if "source" in values:
        is_other = agent is not None and not is_langfuse(agent.source_kind)
        has_source = agent is not None and shown_source(agent) is not None
        is_cleared = "source" in body.model_fields_set and not given and has_source
        # A body without `source` knows only the fields of Langfuse, which another tool does not have.
        if is_other or is_cleared:
            cleared = set(COLUMNS.values()) - (given if is_cleared else {*given, SECRET_COLUMN})
            columns |= dict.fromkeys(cleared)
        return {**columns, "source_kind": None}
    if agent is None or is_langfuse(agent.source_kind):
        return columns
    if given:
        detail = f"the agent reads its traces from {agent.source_kind}; send source instead"
        raise TwoSources(errors=[_error("", detail)])
    # Null: the fields of Langfuse have no value already.
    return {name: value for name, value in columns.items() if name not in COLUMNS.values()}


def secret_pointer(body: AgentBody) -> str:
    """Where a request has the secret key of a source."""
    return "/langfuseSecretKey" if body.source is None else "/source/secretKey"


def _require_kind(kind: str) -> None:
    try:
        TRACE_SOURCES.get(kind)
    except AppError as error:
        raise Invalid(
            "the trace source is unknown", errors=[_error("/kind", error.detail)]
        ) from None


def _error(step: str, detail: str) -> ErrorItem:
    return ErrorItem(pointer=f"/source{step}", detail=detail)
