"""Create, change and delete agents, and check the credentials of their trace sources."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import SecretStr
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from mosaico.agents import queries
from mosaico.agents.models import Agent, AgentRevision
from mosaico.agents.schemas import AgentBody, AgentCheck, AgentCreate
from mosaico.agents.source_fields import (
    LANGFUSE,
    LOCAL,
    SECRET_COLUMN,
    is_langfuse,
    secret_pointer,
    source_columns,
)
from mosaico.core.dependents import (
    NO_CONSENT,
    Consent,
    DeletedResource,
    delete_owner,
)
from mosaico.core.encryption import Secret, SecretBox
from mosaico.core.errors import AppError, Conflict, ErrorItem, Invalid
from mosaico.core.ids import new_id
from mosaico.core.resources import Resources
from mosaico.core.schemas import all_fields
from mosaico.core.url_syntax import is_redacted, redact_url
from mosaico.jobs.declarations import RecordChange
from mosaico.jobs.queue import enqueue
from mosaico.traces.registry import TRACE_SOURCES, CredentialsRefused, TraceQuery

CREDENTIAL_COLUMNS = ("source_kind", "langfuse_url", "langfuse_public_key", SECRET_COLUMN)
RUN_URL, RUN_ADDRESS = "run_url", "run_address"


class AgentInUse(Conflict):
    """Runs, benchmarks or uploads refer to the agent; PATCH it with {"archived": true}."""


class SourceHasNoCheck(Invalid):
    """The trace source cannot check credentials; start a run, which reads the traces with them."""


class SecretRequired(Invalid):
    """The stored secret belongs to the old server; send the secret key of the new one too, or clear it."""


def create_agent(session: Session, body: AgentCreate, box: SecretBox) -> Agent:
    """Raises: `Conflict` if the id is taken."""
    agent_id = body.id or new_id()
    values = source_columns(body, {**all_fields(body), "id": agent_id})
    agent = Agent(**_columns(agent_id, values, box))
    session.add(agent)
    try:
        session.flush()
    except IntegrityError:
        raise Conflict(
            f"the agent id {agent_id!r} is taken; choose another id, or PATCH that agent"
        ) from None
    return agent


def change_agent(
    session: Session, agent_id: str, body: AgentBody, box: SecretBox, now: datetime
) -> Agent:
    """Write the given fields; an omitted secret stays, and a run URL that is given as it is shown.

    Raises: `Invalid` if the URL changes without a secret: a stored secret is never sent to a server
            for which it was not given; if a redacted run URL is not the stored one.
    """
    agent = queries.get_agent(session, agent_id, for_update=True)
    values = body.given_fields()
    if SECRET_COLUMN not in body.model_fields_set:
        values.pop(SECRET_COLUMN, None)
    values = source_columns(body, values, agent)
    if agent.run_address is not None and values.get(RUN_URL) == agent.run_url:
        values.pop(RUN_URL)
    if not values:
        return agent
    _require_own_secret(agent, values, body)
    if any(name in values and values[name] != getattr(agent, name) for name in CREDENTIAL_COLUMNS):
        agent.credentials_refused_at = None
    columns = _columns(agent_id, values, box)
    # An encrypted text differs each time; the redacted address says the same of it.
    changed = [
        name
        for name, value in columns.items()
        if name != RUN_ADDRESS and getattr(agent, name) != value
    ]
    for name, value in columns.items():
        setattr(agent, name, value)
    agent.revision += 1
    agent.updated_at = now
    session.add(
        AgentRevision(
            agent_id=agent_id,
            revision=agent.revision,
            changes=[_words_of(name, agent) for name in changed],
            changed_at=now,
        )
    )
    session.flush()
    enqueue(session, RecordChange(event="agent-updated", subject=agent_id))
    return agent


def _words_of(column: str, agent: Agent) -> str:
    """What a column is called where the history of an agent is shown."""
    name = column if is_langfuse(agent.source_kind) else column.removeprefix("langfuse_")
    return name.replace("_", " ")


def delete_agent(
    session: Session, agent_id: str, now: datetime, consent: Consent = NO_CONSENT
) -> None:
    """Delete an agent, and with `consent` its schedules and alert rules.

    Raises: `AgentInUse` if runs, benchmarks or uploads refer to the agent, `DependentsExist`.
    """
    agent = queries.get_agent(session, agent_id, for_update=True)
    delete_owner(
        session, DeletedResource("agent", agent_id), agent, consent, now, in_use=AgentInUse
    )


def reveal_secret(agent: Agent, box: SecretBox) -> Secret | None:
    """The decrypted secret key of the agent's trace source; reveal it only in the client that sends it."""
    if agent.langfuse_secret_key is None:
        return None
    return box.decrypt(
        agent.langfuse_secret_key, table="agents", row=agent.id, column=SECRET_COLUMN
    )


def reveal_run_url(agent: Agent, box: SecretBox) -> Secret | None:
    """The URL that runs the agent; reveal it only in the client that calls it."""
    if agent.run_address is None:
        return None
    return box.decrypt(agent.run_address, table="agents", row=agent.id, column=RUN_ADDRESS)


def agent_query(
    agent: Agent,
    res: Resources,
    *,
    dataset_ref: str | None = None,
    run_name: str | None = None,
    **selection: Any,
) -> TraceQuery:
    """The query for a selection of the traces of an agent, with its service, server and keys."""
    default_url = (
        res.options.get("langfuse_default_url") if is_langfuse(agent.source_kind) else None
    )
    return TraceQuery(
        dataset_ref=dataset_ref,
        run_name=run_name,
        **selection,
        service_name=agent.otel_service_name,
        url=agent.langfuse_url or default_url,
        project=agent.langfuse_project_name,
        public_key=agent.langfuse_public_key,
        secret_key=reveal_secret(agent, res.secrets),
    )


def record_credentials_check(
    session: Session, agent_id: str, checked_query: TraceQuery, res: Resources, *, refused: bool
) -> None:
    """Record when the keys were first refused, or that they are accepted.

    Does nothing if the agent's keys have changed since `checked_query`.
    """
    agent = queries.get_agent(session, agent_id)
    if (agent.credentials_refused_at is not None) == refused or checked_query.secret_key is None:
        return
    session.refresh(agent, with_for_update=True)
    query = agent_query(agent, res)
    current_keys = (query.url, query.public_key, query.secret_key)
    if current_keys == (checked_query.url, checked_query.public_key, checked_query.secret_key):
        agent.credentials_refused_at = res.clock() if refused else None
        session.flush()


class SourceAnswer(NamedTuple):
    """What a server said of credentials, and whether it refused the keys."""

    check: AgentCheck
    is_refused: bool


def check_source(kind: str, query: TraceQuery, res: Resources) -> SourceAnswer:
    """Check the credentials with the server; uses the network, so call it outside a transaction."""
    url = query.url or ""
    try:
        # An agent without keys has uploads: the answer is which keys Langfuse needs.
        kind = LANGFUSE if kind == LOCAL else kind
        check_credentials = TRACE_SOURCES.get(kind).check
        if check_credentials is None:
            raise SourceHasNoCheck(f"the source {kind!r} has no check; start a run instead")
        check = check_credentials(res, query)
    except AppError as error:
        code = error.error_code.upper().replace("-", "_")
        refused = AgentCheck(
            ok=False, source=kind, langfuse_url=url, error_code=code, detail=error.detail
        )
        return SourceAnswer(refused, is_refused=isinstance(error, CredentialsRefused))
    accepted = AgentCheck(
        ok=True,
        source=kind,
        langfuse_url=url,
        api=check.api,
        version=check.version,
        project=check.project,
    )
    return SourceAnswer(accepted, is_refused=False)


def _require_own_secret(agent: Agent, values: Mapping[str, Any], body: AgentBody) -> None:
    """Raise `SecretRequired` if the stored secret would be sent to another server than before."""
    kind = values.get("source_kind", agent.source_kind)
    is_same_url = values.get("langfuse_url", agent.langfuse_url) == agent.langfuse_url
    is_same_kind = (kind or LANGFUSE) == (agent.source_kind or LANGFUSE)
    is_kept = agent.langfuse_secret_key is not None and SECRET_COLUMN not in values
    if is_kept and not (is_same_url and is_same_kind):
        raise SecretRequired(
            errors=[ErrorItem(pointer=secret_pointer(body), detail="send it with a new URL")]
        )


def _columns(agent_id: str, values: Mapping[str, Any], box: SecretBox) -> dict[str, Any]:
    columns = dict(values)
    secret = columns.get(SECRET_COLUMN)
    if isinstance(secret, SecretStr):
        columns[SECRET_COLUMN] = box.encrypt(
            secret.get_secret_value(), table="agents", row=agent_id, column=SECRET_COLUMN
        )
    if RUN_URL in columns:
        columns |= _run_url_columns(agent_id, columns[RUN_URL], box)
    return columns


def _run_url_columns(agent_id: str, url: str | None, box: SecretBox) -> dict[str, str | None]:
    if url is None:
        return {RUN_URL: None, RUN_ADDRESS: None}
    if is_redacted(url):
        raise Invalid(
            "runUrl is shown redacted; send the full URL",
            errors=[ErrorItem(pointer="/runUrl", detail="is shown redacted; send the full URL")],
        )
    address = box.encrypt(url, table="agents", row=agent_id, column=RUN_ADDRESS)
    return {RUN_URL: redact_url(url), RUN_ADDRESS: address}
