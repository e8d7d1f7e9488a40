"""What the traces of the runs of `page_data` record: one model and prompt a night, and what changed in the bad one."""

from typing import Final

from mosaico.overview.agent_versions import VersionNames
from mosaico.run_store.recorded_attributes import (
    AttributeDifference,
    AttributeProfile,
    DifferenceKind,
    RunRecord,
    ValueCount,
    WhatChanged,
)

BROKEN: Final = 10
# The first night back of each version, with its model and its prompt.
VERSIONS: Final = ((20, "gpt-5.1", "v13"), (1, "gpt-5.1", "v14"), (0, "gpt-5.2-mini", "v15"))


def attributes_of_night(back: int) -> dict[str, str]:
    """The model and the version of the prompt of a night; only the last one has a new model."""
    return next(
        {"model": model, "promptVersion": prompt}
        for first, model, prompt in VERSIONS
        if back >= first
    )


def version_of_night(back: int) -> str:
    """The ID of the version of a night."""
    names = attributes_of_night(back)
    return VersionNames(names["model"], names["promptVersion"]).digest


def record_of_night(back: int, items: int, *, is_bad: bool, baseline_id: str | None) -> RunRecord:
    """The record of a run over `items` items, of which a bad one broke `BROKEN`."""
    values = attributes_of_night(back)
    profile = AttributeProfile(
        items=items,
        values={name: (ValueCount(value=value, items=items),) for name, value in values.items()},
    )
    if baseline_id is None:
        return RunRecord(profile=profile)
    before = attributes_of_night(back + 1)
    fell = BROKEN if is_bad else 0
    changed = [
        _difference(name, before[name], after, fell, items)
        for name, after in values.items()
        if before[name] != after
    ]
    if is_bad:
        changed.insert(0, _failed_tool(fell))
    return RunRecord(
        profile=profile,
        what_changed=WhatChanged(
            baseline_run_id=baseline_id,
            metric="EXACT_MATCH",
            items=items,
            fell=fell,
            others=items - fell,
            has_attributes=True,
            differences=tuple(changed),
            same=tuple(name for name, value in values.items() if before[name] == value),
            varying=("sessionId",),
        ),
    )


def _difference(name: str, before: str, after: str, fell: int, items: int) -> AttributeDifference:
    return AttributeDifference(
        name=name,
        kind=DifferenceKind.VALUE,
        before=before,
        after=after,
        fell=fell,
        others=items - fell,
        share=1.0 if fell else None,
        same_items_as="model" if name == "promptVersion" else None,
    )


def _failed_tool(fell: int) -> AttributeDifference:
    return AttributeDifference(
        name="failed tool",
        kind=DifferenceKind.APPEARED,
        after="refund.lookup",
        fell=fell,
        others=0,
        share=1.0,
        is_concentrated=True,
    )
