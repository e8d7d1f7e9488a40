"""Sentences about what changed between two runs, for pages, messages and the terminal; pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from mosaico.core.text import count_noun, format_decimal, join_words
from mosaico.kpis.verdict_types import FallenSlice
from mosaico.run_store.recorded_attributes import AttributeDifference, DifferenceKind, WhatChanged

NOT_RECORDED: Final = (
    "The traces record nothing that could have changed. Record the model and the version of the prompt, as metadata or"
    " tags of the traces (model:…, promptVersion:…), to see what changed."
)
NOTHING_DIFFERS: Final = "no recorded change"
MAX_LINES: Final = 3

_GAINED: Final = {
    "tool": "tool {} is called, not before",
    "failed tool": "tool {} failed, not before",
    "outcome": "outcome {}, not before",
    "tag": "tag {}, not before",
}
_LOST: Final = {
    "tool": "tool {} is no longer called",
    "failed tool": "tool {} failed before, and no longer",
    "outcome": "outcome {} before, and no longer",
    "tag": "tag {} before, and no longer",
}


def describe_difference(difference: AttributeDifference) -> str:
    """The difference without its numbers: "model gpt-5.1 → gpt-5.2-mini"."""
    name, before, after = difference.name, difference.before, difference.after
    match difference.kind:
        case DifferenceKind.PLAN:
            return name
        case DifferenceKind.APPEARED:
            return _GAINED.get(name, f"{name} {{}}, not before").format(after)
        case DifferenceKind.GONE:
            return _LOST.get(name, f"{name} {{}} before, and no longer").format(before)
        case DifferenceKind.MEDIAN:
            return f"{name} {before} → {after} (median)"
        case DifferenceKind.VALUE:
            return f"{name} {before or 'not recorded'} → {after or 'not recorded'}"


def describe_cover(difference: AttributeDifference, changed: WhatChanged) -> str:
    """How many fallen items have the difference, beside the others: "17 of 17 fallen items, 41 of 41 others"."""
    if not changed.items:
        return ""
    if not changed.fell:
        return f"{difference.others} of {count_noun(changed.items, 'item')}"
    others = f", {difference.others} of {count_noun(changed.others, 'other')}"
    fallen = f"{difference.fell} of {changed.fell} fallen items"
    return fallen + (others if changed.others else "")


def describe_proof(difference: AttributeDifference, changed: WhatChanged) -> str:
    """What the numbers of a difference say."""
    if not changed.fell:
        return ""
    if difference.is_concentrated:
        return "more frequent in fallen items than chance explains"
    if difference.fell == changed.fell and difference.others == changed.others:
        return "in all items, which proves nothing"
    return "not clearly more frequent than in the others, which proves nothing"


def name_shared_items(changed: WhatChanged) -> list[str]:
    """The sentences about differences that the runs cannot tell apart."""
    groups: dict[str, list[str]] = {}
    for difference in changed.differences:
        if difference.same_items_as is not None:
            groups.setdefault(difference.same_items_as, []).append(difference.name)
    return [
        f"{join_words([first, *dict.fromkeys(names)], 'and')} changed together, in the same items: these runs cannot"
        " tell them apart."
        for first, names in groups.items()
        if {*names} - {first}
    ]


def name_authors(changed: WhatChanged) -> list[str]:
    """The sentences about who edited the benchmark and the agent."""
    authors = {"benchmark": changed.benchmark_authors, "agent": changed.agent_authors}
    return [
        f"Between the runs, the {subject} was changed by {join_words(names, 'and')}."
        for subject, names in authors.items()
        if names
    ]


def describe_nothing(changed: WhatChanged) -> str:
    """The sentence of runs without a difference: "no recorded change" needs attributes that could differ."""
    if not changed.has_attributes:
        return NOT_RECORDED
    same = f"; the same in both runs: {', '.join(changed.same)}" if changed.same else ""
    return f"{NOTHING_DIFFERS}{same}"


def describe_what_changed(changed: WhatChanged, limit: int = MAX_LINES) -> list[str]:
    """The first differences with their numbers, how many follow, and what cannot be told apart."""
    return [*_lines(changed, limit), *name_authors(changed), *name_shared_items(changed)]


def explain_drop(changed: WhatChanged) -> list[str]:
    """What changed, where something differs or fell; nothing of runs that are the same."""
    return describe_what_changed(changed) if changed.differences or changed.fell else []


def list_differences(changed: WhatChanged, limit: int = MAX_LINES) -> Sequence[str]:
    """The first differences without their numbers."""
    return [describe_difference(difference) for difference in changed.differences[:limit]]


def describe_fallen_slice(fallen: FallenSlice) -> str:
    """One sentence: which slice, by how much, and what the other items did."""
    change, others = (
        format_decimal(value, "+.3f") for value in (fallen.change, fallen.other_change)
    )
    return (
        f"Only {fallen.tag} fell: {fallen.metric} {change} over its {count_noun(fallen.items, 'item')}, {others} over"
        f" the {fallen.other_items:,} others (p {format_decimal(fallen.p_adjusted, '.2g')}, adjusted for"
        f" {count_noun(fallen.slices, 'slice')})."
    )


def _lines(changed: WhatChanged, limit: int) -> Iterator[str]:
    for difference in changed.differences[:limit]:
        notes = filter(
            None, (describe_cover(difference, changed), describe_proof(difference, changed))
        )
        yield ": ".join(filter(None, (describe_difference(difference), "; ".join(notes))))
    if not changed.differences:
        yield describe_nothing(changed)
    elif not changed.has_attributes:
        yield NOT_RECORDED
    more = len(changed.differences) - limit + changed.left_out
    if more > 0:
        yield f"{count_noun(more, 'more difference')}"
