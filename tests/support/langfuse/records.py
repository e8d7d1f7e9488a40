"""Records of the fake server: observations, scores and dataset items, for both API versions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

JSON = dict[str, Any]

PROJECT_ID: Final = "project-1"
DEFAULT_TIME: Final = datetime(2026, 11, 20, 2, tzinfo=UTC)


class Key(NamedTuple):
    """The sort key of a record."""

    at: datetime
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """The experiment fields of an observation; texts are raw."""

    experiment_id: str
    experiment_name: str
    item_id: str
    root_id: str
    dataset_id: str | None = None
    item_version: datetime | None = None
    expected_output: str | None = None
    item_metadata: Mapping[str, str] | None = None
    metadata: Mapping[str, str] | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One span; `input`, `output` and the values of `metadata` are raw texts."""

    id: str
    trace_id: str
    parent_id: str | None
    type: str
    name: str
    start: datetime
    end: datetime | None
    level: str = "DEFAULT"
    status_message: str | None = None
    environment: str = "default"
    input: str | None = None
    output: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    model: str | None = None
    model_parameters: Mapping[str, Any] | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    cost: Mapping[str, float] = field(default_factory=dict)
    experiment: Membership | None = None
    trace_name: str | None = None
    tags: tuple[str, ...] = ()
    release: str | None = None
    version: str | None = None
    user_id: str | None = None
    session_id: str | None = None
    is_root: bool = False

    @property
    def key(self) -> Key:
        return Key(self.start, self.id)

    @property
    def total_cost(self) -> float:
        return self.cost.get("total", sum(self.cost.values()))

    @property
    def is_item_root(self) -> bool:
        return self.experiment is not None and self.experiment.root_id == self.id

    @property
    def latency_s(self) -> float | None:
        return None if self.end is None else (self.end - self.start).total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A score of a trace, an observation, a session or a whole experiment."""

    id: str
    name: str
    data_type: str
    value: float | str
    timestamp: datetime
    trace_id: str | None = None
    observation_id: str | None = None
    session_id: str | None = None
    experiment_id: str | None = None
    source: str = "API"
    environment: str = "default"
    comment: str | None = None
    metadata: Any = None
    config_id: str | None = None
    author_user_id: str | None = None
    queue_id: str | None = None

    @property
    def key(self) -> Key:
        return Key(self.timestamp, self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetItem:
    """One item of a dataset; its values are JSON, not texts."""

    id: str
    input: Any
    expected_output: Any
    metadata: Any = None
    created_at: datetime = DEFAULT_TIME
    archived_at: datetime | None = None
    deleted_at: datetime | None = None

    def is_active(self, at: datetime | None) -> bool:
        """Whether the item is listed now, or at a time."""
        if at is None:
            return self.archived_at is None and self.deleted_at is None
        gone = [moment for moment in (self.archived_at, self.deleted_at) if moment is not None]
        # `version=` shows the dataset of that moment, with items
        # that were archived or deleted since.
        return self.created_at <= at and all(at < moment for moment in gone)
