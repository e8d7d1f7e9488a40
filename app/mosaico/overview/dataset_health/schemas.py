"""The health of a dataset on the wire."""

from typing import Annotated

from pydantic import Field

from mosaico.annotations.schemas import WrongExpectation
from mosaico.core.schemas import StoredText, WireModel


class ConstantItem(WireModel):
    """An item with the same value in every run that has it."""

    item_id: StoredText
    value: Annotated[float, Field(description="The value in all of these runs.")]
    is_right: Annotated[bool, Field(description="Whether it is right in all of them, or wrong.")]
    runs: Annotated[int, Field(description="Number of runs that this rests on.")]
    agents: Annotated[int, Field(description="Number of agents of these runs.")]


class FlippingItem(WireModel):
    """An item that flips while the agent stays the same."""

    item_id: StoredText
    runs: Annotated[int, Field(description="Number of runs that have the item.")]
    pairs: Annotated[
        int, Field(description="Pairs of consecutive runs of one agent without a change of it.")
    ]
    flips: Annotated[int, Field(description="Pairs in which the value changed by half or more.")]


class SameQuestion(WireModel):
    """Items that ask the same, but for case, spaces and final punctuation."""

    item_ids: Annotated[list[StoredText], Field(description="IDs of the items.")]
    input: Annotated[StoredText, Field(description="The beginning of their question.")]


class NeededSize(WireModel):
    """What detects a smaller drop: so many items, or so many trials of the items there are. Null: no number is enough."""

    drop: Annotated[float, Field(description="Drop of the metric.")]
    items_needed: int | None
    trials_needed: int | None


class DetectableDrop(WireModel):
    """The drop that the dataset detects with 80 % power, and what smaller ones need. Without `drop`, `explanation` says
    why it is not known.
    """

    items: Annotated[int, Field(description="Items of the newest valid run.")]
    trials: Annotated[int, Field(description="Trials of each.")]
    drop: Annotated[float | None, Field(description="The smallest drop that is detected.")]
    explanation: str
    needed: Annotated[list[NeededSize], Field(description="For smaller drops, the largest first.")]


class DatasetHealth(WireModel):
    """The health of the dataset of a benchmark. Each list has at most 100 entries, and its count says of how many.

    Values are those of `metric` in the newest valid runs, at most 60; `reason` says why there are none. Items of the newest
    run are looked at, of a dataset that lives here those of its newest version: what was edited or retired since the run
    is left out.
    """

    benchmark_id: str
    dataset_id: str | None = Field(description="The dataset, if its items live here.")
    dataset_name: StoredText | None
    dataset_version: int | None = Field(description="Its newest version.")
    run_id: str | None = Field(description="The newest valid run.")
    metric: StoredText | None = Field(default=None, description="What says right or wrong.")
    reason: StoredText | None = None
    item_count: int = Field(description="Items whose questions were read.")
    is_cut: bool = Field(description="Whether there are more items than were read.")
    runs: int = Field(default=0, description="Runs whose values were read.")
    agents: int = Field(default=0, description="Their agents.")
    unchanged_pairs: int = Field(
        default=0, description="Pairs of consecutive runs of one agent without a change of it."
    )
    unrecorded_pairs: int = Field(
        default=0,
        description="Those whose traces name no version of the agent: it may have changed.",
    )
    constant_right: int = Field(default=0, description="Items that are always right.")
    constant_wrong: int = Field(default=0, description="Items that are always wrong.")
    constant_items: list[ConstantItem] = Field(
        default=[], description="Those that are always wrong come first."
    )
    flipping: int = Field(default=0, description="Items that flip without a change.")
    flipping_items: list[FlippingItem] = Field(default=[], description="The most flips come first.")
    duplicates: int = Field(description="Questions of several items.")
    duplicate_items: list[SameQuestion] = Field(description="With one expected answer.")
    contradictions: int = Field(description="Questions whose items expect different answers.")
    contradicting_items: list[SameQuestion] = Field(description="With different expected answers.")
    wrong_expectations: list[WrongExpectation] = Field(
        description="Items whose expected answer annotators call wrong, if not edited since."
    )
    detectable: DetectableDrop | None = Field(
        default=None, description="Null without a metric of right or wrong."
    )
