"""What an apply compares and does: objects of a service, records of files, steps and conflicts. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from mosaico.project_file.kinds import ObjectKey, ObjectKind
from mosaico.project_file.vocabulary import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRecord:
    """What the service knows about an object of a file; `shown` is None before the object exists."""

    id: str
    file: str
    path: str
    kind: ObjectKind
    object_id: str
    wanted: Fields
    shown: Fields | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """An object of a service, with its fields as a file has them, except that agents and KPIs have IDs."""

    kind: ObjectKind
    id: str
    fields: Fields
    benchmark_id: str | None = None
    revision: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState:
    """The objects of a service, and what it knows about project files."""

    objects: Sequence[StoredObject]
    records: Sequence[ObjectRecord]


@dataclass(slots=True)
class ObjectNames:
    """The IDs of the objects of a file, and back; an apply adds those that it creates."""

    ids: dict[ObjectKey, str] = field(default_factory=dict)
    keys: dict[tuple[ObjectKind, str], ObjectKey] = field(default_factory=dict)

    def add(self, key: ObjectKey, object_id: str) -> None:
        """Remember the ID of an object."""
        self.ids[key] = object_id
        self.keys[key.kind, object_id] = key

    def name_of(self, kind: ObjectKind, object_id: str) -> str:
        """The name in the file; the ID of an object that the file does not have."""
        key = self.keys.get((kind, object_id))
        return object_id if key is None else key.name

    def in_words_of_file(self, fields: Fields) -> Fields:
        """The fields of a stored object with names in place of IDs."""
        worded = dict(fields)
        if worded.get("agent"):
            worded["agent"] = self.name_of(ObjectKind.AGENT, worded["agent"])
        if "agents" in worded:
            agents = worded["agents"]
            worded["agents"] = sorted(self.name_of(ObjectKind.AGENT, agent) for agent in agents)
        if worded.get("kpi"):
            worded["kpi"] = self.name_of(ObjectKind.KPI, worded["kpi"])
        return worded


class Action(StrEnum):
    """What an apply does with an object."""

    CREATE = "create"
    CHANGE = "change"
    PRUNE = "prune"
    RECORD = "record"
    """Only the record of the object changes."""
    FORGET = "forget"
    """The object belongs to the file no more."""


class ConflictReason(StrEnum):
    """Why an object is not touched."""

    EXISTS = "exists"
    EDITED = "edited"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """A field with the value that the service has and the one that the file wants."""

    name: str
    old: Any
    new: Any
    is_hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A change of one object; `fields` are sent, `wanted` is all that the file names."""

    action: Action
    key: ObjectKey
    object_id: str | None = None
    stored: StoredObject | None = None
    record: ObjectRecord | None = None
    changes: tuple[FieldChange, ...] = ()
    wanted: Fields = field(default_factory=dict)

    @property
    def is_visible(self) -> bool:
        """Whether the step changes an object, not only what is known about it."""
        return self.action in (Action.CREATE, Action.CHANGE, Action.PRUNE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanConflict:
    """An object that is not touched; `owner` is the file that made it, None for a page or the API."""

    key: ObjectKey
    reason: ConflictReason
    object_id: str
    changes: tuple[FieldChange, ...] = ()
    owner: str | None = None
    record: ObjectRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """An object that the file no longer names and that stays; `reason` says why where pruning is impossible."""

    path: str
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The steps of an apply in their order, and what it leaves alone."""

    steps: tuple[Step, ...]
    conflicts: tuple[PlanConflict, ...]
    leftovers: tuple[Leftover, ...]
    unchanged: int
    names: ObjectNames = field(default_factory=ObjectNames)

    @property
    def visible_steps(self) -> tuple[Step, ...]:
        """The steps that change objects."""
        return tuple(step for step in self.steps if step.is_visible)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """`adopt` takes over objects of the same names, `overwrite` replaces edits, `prune` archives what is not named."""

    adopt: bool = False
    overwrite: bool = False
    prune: bool = False


def key_of(record: ObjectRecord) -> ObjectKey:
    """The place of the object of a record."""
    if record.kind is ObjectKind.ENDPOINT:
        # Its place has its ID: two names of a file may swap their recipients.
        return ObjectKey(record.kind, str((record.shown or {}).get("name", record.object_id)))
    return ObjectKey.of_path(record.kind, record.path)
