"""Port of those who refer to an agent, a benchmark, a KPI or an endpoint: what a deletion takes along, and what forbids it.

One rule for all of them: what people have made for the deleted resource (alert rules, schedules, webhook secrets) is
deleted with it only if the request says so; what it has measured, and other resources that name it, forbid the deletion.
The domains that refer to a resource are higher layers than the resource, so they register themselves here. The foreign
keys remain the guard against rows that are written at the same time.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from typing import Final, Literal, NamedTuple, TypeAlias

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from mosaico.core.db import Base
from mosaico.core.errors import Conflict, ErrorItem
from mosaico.core.text import join_words

# Of each kind; more say nothing new.
MAX_FOUND: Final = 500
MAX_NAMED: Final = 20


OwnerKind: TypeAlias = Literal["agent", "benchmark", "KPI", "endpoint"]


class DeletedResource(NamedTuple):
    """The resource to delete; a KPI has the `benchmark_id` inside which its ID is unique."""

    kind: OwnerKind
    id: str
    benchmark_id: str | None = None


class Dependent(NamedTuple):
    """Something that refers to a resource; `name` is what people call it."""

    kind: str
    id: str
    name: str

    def __str__(self) -> str:
        return f"the {self.kind} {self.name!r} ({self.id})"


FindDependents: TypeAlias = Callable[[Session, DeletedResource], Sequence[Dependent]]
"""What refers to a resource, by name; at most `MAX_FOUND`."""
DeleteDependents: TypeAlias = Callable[[Session, DeletedResource, datetime], None]
"""Deletes all that refers to a resource."""


class DependentKind(NamedTuple):
    """One kind of resource that refers to `owners`; without `delete` it forbids the deletion of those."""

    owners: Collection[OwnerKind]
    find: FindDependents
    delete: DeleteDependents | None = None


DEPENDENTS: Final[list[DependentKind]] = []


class DependentsExist(Conflict):
    """Alert rules, schedules or webhook secrets would be deleted too; delete them first, or repeat the request with
    `cascade=true`.
    """

    dependents: Sequence[Dependent] = ()


class Consent(NamedTuple):
    """What a request agrees to delete too: all, or the dependents with some IDs."""

    cascade: bool = False
    ids: Collection[str] = ()

    def covers(self, dependent: Dependent) -> bool:
        return self.cascade or dependent.id in self.ids


NO_CONSENT: Final = Consent()


def find_obstacles(session: Session, owner: DeletedResource) -> list[Dependent]:
    """What forbids the deletion of a resource."""
    return [
        dependent
        for kind in DEPENDENTS
        if owner.kind in kind.owners and kind.delete is None
        for dependent in kind.find(session, owner)
    ]


def delete_dependents(
    session: Session, owner: DeletedResource, consent: Consent, now: datetime
) -> None:
    """Delete what goes with a resource. The caller has locked the resource.

    Raises: `DependentsExist`, with the names, if the request does not agree to the deletion of each.
    """
    kinds = [
        (kind.find(session, owner), kind.delete)
        for kind in DEPENDENTS
        if owner.kind in kind.owners and kind.delete
    ]
    dependents = [dependent for found, _ in kinds for dependent in found]
    if not all(map(consent.covers, dependents)):
        raise _dependents_exist(owner, dependents)
    for found, delete in kinds:
        if found:
            delete(session, owner, now)


def delete_owner(
    session: Session,
    owner: DeletedResource,
    row: Base,
    consent: Consent,
    now: datetime,
    *,
    in_use: type[Conflict],
) -> None:
    """Delete a resource, whose row the caller has locked, with what goes with it.

    Raises: `in_use` if something forbids the deletion, `DependentsExist`.
    """
    if obstacles := find_obstacles(session, owner):
        raise in_use(_describe_use(owner, list_dependents(obstacles)))
    delete_dependents(session, owner, consent, now)
    session.delete(row)
    try:
        session.flush()
    except IntegrityError:
        raise in_use(_describe_use(owner, "what was stored meanwhile")) from None


def _describe_use(owner: DeletedResource, users: str) -> str:
    return (
        f"the {owner.kind} {owner.id!r} cannot be deleted, because of {users};"
        ' PATCH it with {"archived": true} to hide it and keep its history'
    )


def list_dependents(dependents: Iterable[Dependent]) -> str:
    """The names of dependents in a sentence."""
    all_names = [str(dependent) for dependent in dependents]
    names = all_names[:MAX_NAMED]
    if len(all_names) > MAX_NAMED:
        names.append(f"{len(all_names) - MAX_NAMED} more")
    return join_words(names, "and")


def _dependents_exist(owner: DeletedResource, dependents: Sequence[Dependent]) -> DependentsExist:
    error = DependentsExist(
        f"with the {owner.kind} {owner.id!r}, {list_dependents(dependents)} would be deleted; delete them first,"
        " or repeat the request with cascade=true",
        errors=[
            ErrorItem(pointer="", detail=f"{dependent} would be deleted too")
            for dependent in dependents[:MAX_NAMED]
        ],
    )
    error.dependents = dependents
    return error
