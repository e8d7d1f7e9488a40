"""People who log in with a provider or through a proxy: their first login registers them, each one decides their role."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from mosaico.access.login_rules import Identity, decide_role, is_of_group
from mosaico.access.models import BrowserSession, Person
from mosaico.access.rules import RoleName, role_within
from mosaico.access.schemas import PersonView
from mosaico.access.service import check_limit
from mosaico.access.sessions import NewSession, end_sessions, start_person_session
from mosaico.core.errors import Forbidden, NotFound
from mosaico.core.ids import new_id
from mosaico.core.keyset import PageQuery, select_page
from mosaico.core.login_settings import RoleRule
from mosaico.core.schemas import Page
from mosaico.core.text import replace_unstorable

MAX_CHARS = 200


class UnknownPerson(NotFound):
    """No person has this ID; GET /api/v1/people lists all people."""


class NoRole(Forbidden):
    """You are logged in at the provider, but no rule of MOSAICO_LOGIN_ROLES gives you a role; ask an administrator."""


class PersonBlocked(Forbidden):
    """An administrator has blocked your access; ask one to unblock it."""


def log_in_person(
    session: Session, identity: Identity, role: RoleName | None, now: datetime
) -> NewSession:
    """Register or update a person and start a session. Raises: `PersonBlocked`."""
    values = {
        "name": replace_unstorable(identity.name[:MAX_CHARS]),
        "email": identity.email,
        "role": role,
        "last_login_at": now,
    }
    keys = {"issuer": identity.issuer, "subject": identity.subject}
    added = insert(Person).values(id=new_id(), created_at=now, **keys, **values)
    saved = added.on_conflict_do_update(
        index_elements=[Person.issuer, Person.subject], set_=values
    ).returning(Person.id, Person.blocked_at)
    row = session.execute(saved).one()
    if row.blocked_at is not None:
        raise PersonBlocked
    return start_person_session(session, row.id, now, provider_session=identity.session_id)


def end_withdrawn_sessions(session: Session, rules: Sequence[RoleRule]) -> None:
    """End the sessions of people to whom these rules no longer give the role of their last login; for a start.

    Groups are known at a login only: whom a rule for a group may have given the role keeps the session.
    """
    of_groups = {rule.role for rule in rules if is_of_group(rule)}
    logged_in = select(BrowserSession.person_id).where(BrowserSession.person_id.is_not(None))
    for person in session.scalars(select(Person).where(Person.id.in_(logged_in))):
        identity = Identity(
            issuer=person.issuer, subject=person.subject, name=person.name, email=person.email
        )
        if person.role not in {*of_groups, decide_role(identity, rules)}:
            end_sessions(session, person.issuer, subject=person.subject)


def set_blocked(session: Session, person_id: str, *, is_blocked: bool, now: datetime) -> None:
    """Block a person, whose sessions and keys stop working within a second, or let them log in again.

    Raises: `UnknownPerson`.
    """
    person = UnknownPerson.unless(session.get(Person, person_id, with_for_update=True))
    if is_blocked:
        person.blocked_at = person.blocked_at or now
        end_sessions(session, person.issuer, subject=person.subject)
    else:
        person.blocked_at = None
    session.flush()


def limit_person(session: Session, person_id: str, only: Sequence[str] | None) -> None:
    """Let a person see only these benchmarks; None for all. Raises: `UnknownPerson`, `Invalid`."""
    person = UnknownPerson.unless(session.get(Person, person_id, with_for_update=True))
    if only is not None:
        # An administrator with a limit has the role run.
        check_limit(session, only, "run")
    person.only = None if only is None else list(only)
    session.flush()


def get_person(session: Session, person_id: str) -> PersonView:
    """One person. Raises: `UnknownPerson`."""
    return _person_view(UnknownPerson.unless(session.get(Person, person_id)))


def list_people(session: Session, query: PageQuery) -> Page[PersonView]:
    """Everybody who has logged in as a person, newest first, blocked ones too."""
    keys = [Person.created_at, Person.id]
    return select_page(session, select(Person), keys=keys, query=query).to_page(_person_view)


def _person_view(row: Person) -> PersonView:
    role = role_within(row.role, row.only)
    return PersonView.model_validate(row).model_copy(update={"role": role})
