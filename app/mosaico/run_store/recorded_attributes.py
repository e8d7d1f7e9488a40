"""What the traces of a run say of the agent, and how it differs from the baseline: as stored and as JSON."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from mosaico.core.schemas import StoredText, WireModel


class DifferenceKind(StrEnum):
    """The form of a difference between two runs.

    VALUE: an attribute has another value. APPEARED, GONE: an item has one of several values only after or only before,
    such as a tool that was called. MEDIAN: the median of a number changed. PLAN: the runs were planned differently,
    which holds for all items.
    """

    VALUE = "VALUE"
    APPEARED = "APPEARED"
    GONE = "GONE"
    MEDIAN = "MEDIAN"
    PLAN = "PLAN"


class AttributeDifference(WireModel):
    """A difference between two runs, and in how many of the fallen and of the other items it is."""

    name: Annotated[
        StoredText, Field(description="Name of the attribute; of a PLAN, the whole sentence.")
    ]
    kind: DifferenceKind
    before: Annotated[
        StoredText | None, Field(description="Value in the baseline; null if not recorded.")
    ] = None
    after: Annotated[
        StoredText | None, Field(description="Value in the run; null if not recorded.")
    ] = None
    fell: Annotated[int, Field(description="Number of fallen items with the difference.")]
    others: Annotated[int, Field(description="Number of other items with the difference.")]
    share: Annotated[
        float | None,
        Field(
            description="Share of the fallen items with the difference; null where nothing fell."
        ),
    ] = None
    is_concentrated: Annotated[
        bool,
        Field(description="Whether it is more frequent in fallen items than chance explains."),
    ] = False
    same_items_as: Annotated[
        StoredText | None,
        Field(
            description="An earlier difference in the same items: the runs cannot tell them apart."
        ),
    ] = None


class WhatChanged(WireModel):
    """The differences between a run and its baseline, by how much of the drop they cover beyond the other items.

    Of `items` that both runs have, `fell` fell by `metric`. Without `hasAttributes` the traces record nothing that could
    differ. `same` are attributes without a difference, `varying` those that differ from item to item or from run to run
    by their nature, and `leftOut` counts differences after the listed ones.
    """

    version: Literal[1] = 1
    baseline_run_id: Annotated[
        str | None, Field(description="The baseline run whose traces were read.")
    ] = None
    metric: Annotated[
        StoredText | None, Field(description="The metric by which items fell; null if unknown.")
    ] = None
    items: Annotated[int, Field(description="Number of items that both runs have.")] = 0
    fell: Annotated[int, Field(description="Number of fallen items.")] = 0
    others: Annotated[int, Field(description="Number of items that did not fall.")] = 0
    has_attributes: Annotated[
        bool, Field(description="Whether the traces of the run record attributes.")
    ] = False
    differences: Annotated[
        tuple[AttributeDifference, ...],
        Field(description="The differences, the ones that explain most first."),
    ] = ()
    left_out: Annotated[int, Field(description="Number of differences that are not listed.")] = 0
    benchmark_authors: Annotated[
        tuple[StoredText, ...],
        Field(description="Names of those who edited the benchmark between the two runs."),
    ] = ()
    agent_authors: Annotated[
        tuple[StoredText, ...],
        Field(description="Names of those who edited the agent between the two runs."),
    ] = ()
    same: Annotated[
        tuple[StoredText, ...], Field(description="Attributes that are the same in both runs.")
    ] = ()
    varying: Annotated[
        tuple[StoredText, ...],
        Field(description="Attributes that differ by their nature, such as the ID of a session."),
    ] = ()


class ValueCount(WireModel):
    """A value of an attribute, and the number of items that have it."""

    value: StoredText
    items: int


class AttributeProfile(WireModel):
    """The attributes of the traces of a run with few values, the most frequent value first."""

    version: Literal[1] = 1
    items: int = 0
    values: Mapping[str, tuple[ValueCount, ...]] = Field(default_factory=dict)


class RunRecord(WireModel):
    """What the traces of a run say of the agent, and what differs from the baseline; null without one."""

    profile: Annotated[
        AttributeProfile, Field(description="The attributes of the traces with few values.")
    ] = AttributeProfile()
    what_changed: Annotated[
        WhatChanged | None, Field(description="What changed since the baseline; null without one.")
    ] = None
