"""Port of those who notify endpoints: an endpoint that something notifies is not deleted.

Alert rules keep the IDs of their endpoints and are a higher layer, so they register themselves here.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from sqlalchemy.orm import Session

from mosaico.core.errors import Conflict


class EndpointUser(NamedTuple):
    """Something that notifies an endpoint; `name` is what people call it."""

    kind: str
    id: str
    name: str


FindUsers: TypeAlias = Callable[[Session, str], list[EndpointUser]]
"""Those who notify an endpoint, by its ID; of many the first ones."""

ENDPOINT_USERS: Final[list[FindUsers]] = []


class EndpointInUse(Conflict):
    """Alert rules notify the endpoint; change or delete the rules first."""


def require_unused(session: Session, endpoint_id: str) -> None:
    """Raise `EndpointInUse`, with its first users, if something notifies the endpoint.

    The caller has locked the endpoint; every writer of a user takes a shared lock.
    """
    users = [user for find_users in ENDPOINT_USERS for user in find_users(session, endpoint_id)]
    if users:
        names = ", ".join(f"{user.name!r} ({user.id})" for user in users)
        raise EndpointInUse(
            f"the {users[0].kind}s {names} notify this endpoint; change or delete them first"
        )
