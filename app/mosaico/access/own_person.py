"""The person behind a request: who logged in, or to whom the key belongs."""

from collections.abc import Collection

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from mosaico.access.authentication import Caller
from mosaico.access.models import ApiKey, Person


def find_own_person(session: Session, caller: Caller) -> Person | None:
    """The person who sends a request; None for a key that belongs to nobody."""
    if caller.type == "person":
        return session.get(Person, caller.key_id)
    owner = select(Person).join(ApiKey, ApiKey.person_id == Person.id)
    return session.scalar(owner.where(ApiKey.id == caller.key_id))


def list_names_by_address(session: Session, addresses: Collection[str]) -> dict[str, str]:
    """The names of people by their addresses in lower case; who has never logged in has none."""
    if not addresses:
        return {}
    address = func.lower(Person.email)
    people = select(address, Person.name).where(address.in_(addresses))
    return {row[0]: row[1] for row in session.execute(people.order_by(Person.last_login_at))}
