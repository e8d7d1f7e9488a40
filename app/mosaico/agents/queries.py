"""Reads of agents."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from mosaico.agents.models import Agent, AgentRevision
from mosaico.core.errors import NotFound
from mosaico.core.keyset import PageQuery, PageRows, select_page
from mosaico.core.names import Names, list_newest_names

# The style sheets and the charts have so many colors of agents.
AGENT_COLOR_COUNT: Final = 6


class AgentLabel(NamedTuple):
    """The name of an agent, and its color on every page: 0 to 5, in the order of creation."""

    name: str
    color: int = 0

    @classmethod
    def of(cls, name: str, number: int) -> "AgentLabel":
        return cls(name, (number - 1) % AGENT_COLOR_COUNT)


class AgentNotFound(NotFound):
    """The agent does not exist; GET /api/v1/agents lists all agents."""


def get_agent(session: Session, agent_id: str, *, for_update: bool = False) -> Agent:
    agent = session.get(Agent, agent_id, with_for_update=for_update or None)
    return AgentNotFound.unless(
        agent,
        f"the agent {agent_id!r} does not exist; GET /api/v1/agents lists all agents",
    )


def lock_existing_agents(session: Session, agent_ids: Iterable[str]) -> set[str]:
    """The ids that exist.

    Locks:   these agents against deletion until the transaction ends.
    """
    statement = select(Agent.id).where(Agent.id.in_(set(agent_ids))).order_by(Agent.id)
    return set(session.scalars(statement.with_for_update(read=True, key_share=True)))


def list_agents(session: Session, query: PageQuery, *, archived: bool) -> PageRows[Agent]:
    """One page of agents, newest first."""
    statement = select(Agent).where(Agent.archived.is_(archived))
    return select_page(session, statement, keys=[Agent.created_at, Agent.id], query=query)


def list_revisions(session: Session, agent_id: str, query: PageQuery) -> PageRows[AgentRevision]:
    """The edits of an agent, newest first."""
    statement = select(AgentRevision).where(AgentRevision.agent_id == agent_id)
    return select_page(session, statement, keys=[AgentRevision.revision], query=query)


def list_agent_names(session: Session, ids: Collection[str] = ()) -> Names:
    """The names of the newest agents, as a form offers them: of those with one of `ids`, if there are any.
    Archived ones are left out.
    """
    names = select(Agent.id, Agent.name).where(Agent.archived.is_(False))
    if ids:
        names = names.where(Agent.id.in_(ids))
    keys = [Agent.created_at, Agent.id]
    return list_newest_names(session, names, keys, "/agents", lambda _, name: name)


def add_agent_names(
    session: Session, names: Mapping[str, str], ids: Iterable[str]
) -> dict[str, str]:
    """Names by ID, with those of `ids` that are missing: of old and of archived agents."""
    missing = set(ids) - names.keys()
    statement = select(Agent.id, Agent.name).where(Agent.id.in_(missing))
    return {
        **names,
        **({row.id: row.name for row in session.execute(statement)} if missing else {}),
    }
