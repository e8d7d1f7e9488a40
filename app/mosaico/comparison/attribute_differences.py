"""The differences between the traces of two runs, and how much of a drop each covers; pure."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from mosaico.comparison.attribute_cover import AttributeChange, cut_value, rank_changes
from mosaico.comparison.attribute_names import (
    MANY_VALUED,
    PROMPT_SIZE,
    is_identifier,
    rank_of,
    split_feature,
)
from mosaico.core.text import format_number
from mosaico.items.attributes import ItemAttributes
from mosaico.run_store.recorded_attributes import (
    AttributeProfile,
    DifferenceKind,
    ValueCount,
    WhatChanged,
)

MAX_DIFFERENCES: Final = 20
MAX_NAMES: Final = 60
MAX_VALUES: Final = 20
# A difference of one item among many is chance, unless the item is all that fell.
MIN_ITEMS: Final = 2
# A number with fewer values is a version or a setting.
MIN_NUMBERS: Final = 6
MIN_MEDIAN_CHANGE: Final = 0.1
# Of the items whose number changed, so many follow the median; values drawn by chance do in half of the items.
MIN_FOLLOWING: Final = 2 / 3
# A change back in so many items as the change itself is no change, but a value that varies.
MAX_REVERSED: Final = 0.5

# The values of an attribute by item.
ItemValues: TypeAlias = Mapping[str, frozenset[str]]
# The value of an item before and after; None where none is recorded.
_Move: TypeAlias = tuple[str | None, str | None]
_ABSENT: Final[frozenset[str]] = frozenset()


class ComparedAttributes(NamedTuple):
    """The attributes of both runs over the items that are compared; `fallen` of them fell by `metric`.

    With `is_paired` both runs have the items, otherwise they are those of the candidate. `plan_changes` are sentences
    about how the runs were planned.
    """

    before: ItemAttributes
    after: ItemAttributes
    items: Sequence[str]
    fallen: Collection[str] = ()
    metric: str | None = None
    plan_changes: Sequence[str] = ()
    is_paired: bool = True
    baseline_run_id: str | None = None


@dataclass(slots=True)
class _Changes:
    """The differences of all attributes, and the names of those without one."""

    changes: list[AttributeChange] = field(default_factory=list)
    same: list[str] = field(default_factory=list)
    varying: list[str] = field(default_factory=list)

    def add(self, name: str, changes: Sequence[AttributeChange] | None) -> None:
        """Add the differences of an attribute; None where it differs by its nature."""
        if changes is None:
            self.varying.append(name)
        elif changes:
            self.changes += changes
        else:
            self.same.append(name)


def find_differences(compared: ComparedAttributes) -> WhatChanged:
    """The differences between two runs, the ones that cover most of the drop beyond the other items first."""
    items, fallen = frozenset(compared.items), frozenset(compared.fallen)
    found = _find_changes(compared, items)
    changes = [change for change in found.changes if _is_told(change, fallen)]
    changes += [
        AttributeChange(name=text, kind=DifferenceKind.PLAN, items=items)
        for text in compared.plan_changes
    ]
    ranked = rank_changes(changes, fallen, len(items))
    attributes = {*found.same, *found.varying, *(change.name for change in found.changes)}
    return WhatChanged(
        baseline_run_id=compared.baseline_run_id,
        metric=compared.metric,
        items=len(items),
        fell=len(fallen),
        others=len(items) - len(fallen),
        # What an agent did (its tools, its outcome) says nothing of what it is.
        has_attributes=bool(attributes - MANY_VALUED - {PROMPT_SIZE}) or "tag" in attributes,
        differences=tuple(ranked[:MAX_DIFFERENCES]),
        left_out=max(0, len(ranked) - MAX_DIFFERENCES),
        same=tuple(sorted(found.same, key=lambda name: (rank_of(name), name))[:MAX_NAMES]),
        varying=tuple(sorted(found.varying)[:MAX_NAMES]),
    )


def profile_of(attributes: ItemAttributes) -> AttributeProfile:
    """The attributes of a run with few values, those that name an agent first."""
    by_name = defaultdict[str, Counter[str]](Counter)
    for feature, items in attributes.features.items():
        name, value = split_feature(feature)
        by_name[name][value] = len(items)
    names = [
        name
        for name, values in by_name.items()
        if len(values) <= MAX_VALUES and not is_identifier(name)
    ]
    names.sort(key=lambda name: (rank_of(name), name))
    return AttributeProfile(
        items=len(attributes.usage.items),
        values={
            cut_value(name): tuple(
                ValueCount(value=cut_value(value), items=count)
                for value, count in by_name[name].most_common()
            )
            for name in names[:MAX_NAMES]
        },
    )


def _find_changes(compared: ComparedAttributes, items: frozenset[str]) -> _Changes:
    after = _values_by_name(compared.after, items)
    if compared.is_paired:
        before = _values_by_name(compared.before, items)
    else:
        before = _values_of_other_items(compared.before, after)
    changes = _Changes()
    for name in sorted(before.keys() | after.keys()):
        values = before.get(name, {}), after.get(name, {})
        changes.add(name, _changes_of(name, *values, items))
    sizes = compared.before.prompt_sizes, compared.after.prompt_sizes
    if compared.is_paired and all(sizes):
        changes.add(PROMPT_SIZE, _median_change(PROMPT_SIZE, *sizes, items))
    return changes


def _values_by_name(attributes: ItemAttributes, items: frozenset[str]) -> dict[str, ItemValues]:
    """The values of each attribute by item; items without a value are left out."""
    by_name = defaultdict[str, defaultdict[str, set[str]]](lambda: defaultdict(set))
    for feature, with_it in attributes.features.items():
        name, value = split_feature(feature)
        for item in with_it & items:
            by_name[name][item].add(value)
    return {
        name: {item: frozenset(values) for item, values in by_item.items()}
        for name, by_item in by_name.items()
    }


def _values_of_other_items(
    attributes: ItemAttributes, after: Mapping[str, ItemValues]
) -> dict[str, ItemValues]:
    """What the items of the candidate would have in a baseline with other items: their own value where the baseline
    knows it, otherwise the most frequent one.
    """
    seen = defaultdict[str, Counter[str]](Counter)
    for feature, with_it in attributes.features.items():
        name, value = split_feature(feature)
        seen[name][value] += len(with_it)
    return {
        name: {
            item: values if values <= counts.keys() else frozenset({counts.most_common(1)[0][0]})
            for item, values in after.get(name, {}).items()
        }
        for name, counts in seen.items()
    }


def _changes_of(
    name: str, before: ItemValues, after: ItemValues, items: frozenset[str]
) -> list[AttributeChange] | None:
    """The differences of one attribute; None where it differs by its nature."""
    if is_identifier(name):
        return None
    if name in MANY_VALUED or any(
        len(values) > 1 for values in (*before.values(), *after.values())
    ):
        return list(_gained_and_lost(name, before, after, items))
    moves = {item: (_only(before.get(item)), _only(after.get(item))) for item in items}
    changed = Counter(move for move in moves.values() if move[0] != move[1])
    if (numbers := _both_numbers(before, after)) is not None and changed:
        return _median_change(name, *numbers, items)
    return _changed_values(name, moves, changed)


def _changed_values(
    name: str, moves: Mapping[str, _Move], changed: Counter[_Move]
) -> list[AttributeChange] | None:
    """One difference for each pair of values; None where items change without a pattern."""
    if not changed:
        return []
    # As many values as items: each has its own.
    if changed.total() > MIN_ITEMS and 2 * len(changed) > changed.total():
        return None
    forward = [
        (old, new)
        for (old, new), count in changed.items()
        if changed[new, old] <= MAX_REVERSED * count
    ]
    changes = [
        AttributeChange(
            name=name,
            kind=DifferenceKind.VALUE,
            items=frozenset(item for item, move in moves.items() if move == (old, new)),
            before=old,
            after=new,
        )
        for old, new in forward
    ]
    return changes or None


def _only(values: frozenset[str] | None) -> str | None:
    return next(iter(values), None) if values else None


def _gained_and_lost(
    name: str, before: ItemValues, after: ItemValues, items: frozenset[str]
) -> Iterator[AttributeChange]:
    """The values that items have only after, or only before; one that comes and goes is left out."""
    gained, lost = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for item in items:
        old, new = before.get(item, _ABSENT), after.get(item, _ABSENT)
        for value in new - old:
            gained[value].add(item)
        for value in old - new:
            lost[value].add(item)
    for value in sorted(gained.keys() | lost.keys()):
        more, fewer = gained[value], lost[value]
        if len(fewer) <= MAX_REVERSED * len(more):
            yield AttributeChange(
                name=name, kind=DifferenceKind.APPEARED, items=frozenset(more), after=value
            )
        elif len(more) <= MAX_REVERSED * len(fewer):
            yield AttributeChange(
                name=name, kind=DifferenceKind.GONE, items=frozenset(fewer), before=value
            )


def _both_numbers(
    before: ItemValues, after: ItemValues
) -> tuple[dict[str, float], dict[str, float]] | None:
    """The values as numbers; None if one is not a number, or there are as few as of versions."""
    numbers = _numbers(before), _numbers(after)
    values = {value for side in numbers for value in side.values()}
    is_measured = len(values) >= MIN_NUMBERS and all(map(math.isfinite, values))
    return numbers if is_measured else None


def _numbers(values: ItemValues) -> dict[str, float]:
    """The values as numbers; NaN for a text."""
    return {item: _number_of(_only(texts) or "") for item, texts in values.items()}


def _number_of(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _median_change(
    name: str, before: Mapping[str, float], after: Mapping[str, float], items: frozenset[str]
) -> list[AttributeChange]:
    """The change of the median of a number, with the items that follow it; none for a small change."""
    common = sorted(items & before.keys() & after.keys())
    if not common:
        return []
    old, new = (_median([values[item] for item in common]) for values in (before, after))
    step = new - old
    if abs(step) < MIN_MEDIAN_CHANGE * abs(old) or not step:
        return []
    moves = {item: after[item] - before[item] for item in common}
    following = frozenset(
        item for item, move in moves.items() if move * step > 0 and 2 * abs(move) >= abs(step)
    )
    if len(following) < MIN_FOLLOWING * sum(move != 0 for move in moves.values()):
        return []
    texts = format_number(old), format_number(new)
    change = AttributeChange(
        name=name, kind=DifferenceKind.MEDIAN, items=following, before=texts[0], after=texts[1]
    )
    return [change]


def _median(values: Iterable[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _is_told(change: AttributeChange, fallen: frozenset[str]) -> bool:
    return len(change.items) >= MIN_ITEMS or bool(fallen and fallen <= change.items)
