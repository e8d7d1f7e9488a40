"""What is mine: the agents that a person owns, and those with an open incident that is assigned to the person."""

from typing import Annotated, NamedTuple

from fastapi import Query
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from mosaico.access.authentication import Caller
from mosaico.access.models import Person
from mosaico.access.own_person import find_own_person
from mosaico.agents.models import Agent
from mosaico.alerts.models import UNRESOLVED, Incident
from mosaico.core.errors import Invalid

Mine = Annotated[
    bool,
    Query(
        description="Only your agents, and those with an open incident that is assigned to you. Requires a person who"
        " logged in, or a key that belongs to one."
    ),
]


class NotAPerson(Invalid):
    """`mine` is what belongs to a person: log in as one, or use a key that belongs to one (`personId`)."""


class MineChoice(NamedTuple):
    """The choice between all agents, for which `ids` is None, and those of the caller; only a person has it.

    `hidden` is the number of the other agents that the caller sees.
    """

    is_person: bool
    ids: frozenset[str] | None = None
    hidden: int = 0

    def has(self, agent_id: str) -> bool:
        """Return whether an agent is shown."""
        return self.ids is None or agent_id in self.ids


ALL_AGENTS = MineChoice(is_person=False)


def choose_agents(session: Session, caller: Caller, *, mine: bool) -> MineChoice:
    """The agents of the caller with `mine`, otherwise all. Raises: `NotAPerson`."""
    person = find_own_person(session, caller)
    if not mine:
        return MineChoice(is_person=person is not None)
    if person is None:
        raise NotAPerson
    ids = _list_own(session, person)
    others = select(func.count()).where(Agent.archived.is_(False), Agent.id.not_in(ids))
    return MineChoice(True, ids, session.scalar(others) or 0)


def _list_own(session: Session, person: Person) -> frozenset[str]:
    owned = select(Agent.id).where(Agent.owners.contains([(person.email or "").lower()]))
    assigned = select(Incident.agent_id).where(
        Incident.assignee_id == person.id, text(f"incidents.{UNRESOLVED}")
    )
    return frozenset([*session.scalars(owned), *session.scalars(assigned)])
