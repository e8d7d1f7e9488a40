"""What changed between the traces of two runs, and what of a drop it covers."""

from collections.abc import Mapping, Sequence

from mosaico.comparison.attribute_differences import (
    ComparedAttributes,
    find_differences,
    profile_of,
)
from mosaico.comparison.attribute_text import NOT_RECORDED, describe_what_changed
from mosaico.items.attributes import AttributeRow, ItemAttributes, attributes_of_rows
from mosaico.run_store.recorded_attributes import DifferenceKind, WhatChanged
from mosaico.traces.types import TraceOutcome

ITEMS = [f"q{number:02}" for number in range(58)]
FALLEN = ITEMS[:17]


def _run(
    tags: Mapping[str, Sequence[str]],
    *,
    failed: Sequence[str] = (),
    sizes: Mapping[str, float] | None = None,
    items: Sequence[str] = ITEMS,
) -> ItemAttributes:
    """The attributes of a run: `tags` by item, the items in which refund.lookup failed, and prompt sizes."""
    rows = [
        AttributeRow(
            item,
            "r",
            list(tags.get(item, ())),
            TraceOutcome.SCORED,
            ["refund.lookup"],
            (None, None, None),
            ["refund.lookup"] if item in failed else [],
            (sizes or {}).get(item),
        )
        for item in items
    ]
    return attributes_of_rows(rows)


def _all(*tags: str) -> dict[str, Sequence[str]]:
    return dict.fromkeys(ITEMS, tags)


def _names(changed: WhatChanged) -> list[str]:
    return [difference.name for difference in changed.differences]


def test_find_differences__model_and_prompt_in_all_items_prove_nothing_and_cannot_be_told_apart() -> (
    None
):
    before = _run(_all("model:gpt-5.1", "promptVersion:v14", "environment:nightly"))
    after = _run(_all("model:gpt-5.2-mini", "promptVersion:v15", "environment:nightly"))

    changed = find_differences(ComparedAttributes(before, after, ITEMS, FALLEN, "TASK_PASSED"))

    model, prompt = changed.differences
    assert (model.name, model.before, model.after) == ("model", "gpt-5.1", "gpt-5.2-mini")
    assert (model.fell, model.others, model.is_concentrated) == (17, 41, False)
    assert (prompt.name, prompt.after, prompt.same_items_as) == ("promptVersion", "v15", "model")
    assert changed.same == ("environment", "tool")
    lines = describe_what_changed(changed)
    assert "17 of 17 fallen items, 41 of 41 others" in lines[0]
    assert "proves nothing" in lines[0]
    assert "model and promptVersion" in lines[-1]
    assert "cannot tell them apart" in lines[-1]


def test_find_differences__what_is_concentrated_in_fallen_items_is_first() -> None:
    """12 of 17 fallen and 2 of 41 others: 71 % and 5 %."""
    failed = [*FALLEN[:12], *ITEMS[17:19]]
    before = _run(_all("model:a"))
    after = _run(_all("model:b"), failed=failed)

    changed = find_differences(ComparedAttributes(before, after, ITEMS, FALLEN))

    tool, model = changed.differences
    assert (tool.name, tool.kind, tool.after) == (
        "failed tool",
        DifferenceKind.APPEARED,
        "refund.lookup",
    )
    assert (tool.fell, tool.others, tool.is_concentrated) == (12, 2, True)
    assert (model.name, model.is_concentrated, model.same_items_as) == ("model", False, None)


def test_find_differences__a_rare_difference_does_not_push_the_model_down() -> None:
    """Two of 17 fallen and none of the others have p = 0.08 (17 x 16 / (58 x 57)): chance explains it."""
    before = _run(_all("model:a"))
    after = _run(_all("model:b"), failed=FALLEN[:2])

    changed = find_differences(ComparedAttributes(before, after, ITEMS, FALLEN))

    assert _names(changed) == ["model", "failed tool"]
    assert not changed.differences[1].is_concentrated


def test_find_differences__identifiers_and_values_of_each_item_are_named_and_left_out() -> None:
    before, after = (
        _run({item: ["model:a", f"sessionId:{night}", f"nonce:{night}{item}"] for item in ITEMS})
        for night in ("n1", "n2")
    )

    changed = find_differences(ComparedAttributes(before, after, ITEMS, FALLEN))

    assert changed.differences == ()
    assert changed.varying == ("nonce", "sessionId")
    assert changed.same == ("model", "tool")
    assert describe_what_changed(changed)[0].startswith("no recorded change")


def test_find_differences__a_random_route_between_two_models_is_no_change() -> None:
    before = _run({item: [f"model:{'ab'[i % 2]}"] for i, item in enumerate(ITEMS)})
    after = _run({item: [f"model:{'ab'[i // 2 % 2]}"] for i, item in enumerate(ITEMS)})

    changed = find_differences(ComparedAttributes(before, after, ITEMS))

    assert changed.differences == ()
    assert changed.varying == ("model",)


def test_find_differences__prompt_sizes_differ_by_their_median() -> None:
    """1,000 tokens and 10 more of each item: a median of 1,285. Forty of 58 items grow by 700."""
    sizes = {item: 1000.0 + 10 * number for number, item in enumerate(ITEMS)}
    grown = {
        item: size + (700 if number < 40 else 0)
        for number, (item, size) in enumerate(sizes.items())
    }
    before, after = _run(_all("model:a"), sizes=sizes), _run(_all("model:a"), sizes=grown)

    changed = find_differences(ComparedAttributes(before, after, ITEMS, FALLEN))

    (size,) = changed.differences
    assert (size.name, size.kind) == ("prompt tokens", DifferenceKind.MEDIAN)
    assert (size.before, size.after, size.fell, size.others) == ("1,285", "1,805", 17, 23)

    slightly = {item: size * 1.05 for item, size in sizes.items()}
    close = find_differences(
        ComparedAttributes(before, _run(_all("model:a"), sizes=slightly), ITEMS)
    )
    assert close.differences == ()
    assert "prompt tokens" in close.same


def test_find_differences__without_attributes_says_what_to_record() -> None:
    changed = find_differences(ComparedAttributes(_run({}), _run({}), ITEMS, FALLEN))

    assert not changed.has_attributes
    assert describe_what_changed(changed) == [NOT_RECORDED]


def test_find_differences__a_change_of_the_plan_covers_all_items() -> None:
    compared = ComparedAttributes(
        _run({}), _run({}), ITEMS, FALLEN, plan_changes=["agent revision 3 → 4"]
    )

    changed = find_differences(compared)

    (plan,) = changed.differences
    assert (plan.kind, plan.fell, plan.others) == (DifferenceKind.PLAN, 17, 41)
    assert NOT_RECORDED in describe_what_changed(changed)


def test_find_differences__an_attribute_that_was_not_recorded_before_is_no_cause() -> None:
    before, after = _run(_all("release:7")), _run(_all("release:8", "model:b"))

    changed = find_differences(ComparedAttributes(before, after, ITEMS, FALLEN))

    assert [(d.name, d.before) for d in changed.differences] == [("release", "7"), ("model", None)]


def test_find_differences__other_items_are_compared_by_the_values_that_the_baseline_knows() -> None:
    others = [f"p{number}" for number in range(10)]
    before = _run(_all("model:a", "topic:x"))
    after = _run(
        {item: ["model:b", f"topic:{'xy'[i % 2]}"] for i, item in enumerate(others)}, items=others
    )

    changed = find_differences(ComparedAttributes(before, after, others, is_paired=False))

    assert [(d.name, d.others) for d in changed.differences] == [("model", 10), ("topic", 5)]


def test_profile__has_attributes_with_few_values_without_identifiers() -> None:
    run = _run({item: ["model:a", "user:u1", f"nonce:{item}"] for item in ITEMS})

    profile = profile_of(run)

    assert profile.items == 58
    assert {name: [v.value for v in values] for name, values in profile.values.items()} == {
        "model": ["a"],
        "tool": ["refund.lookup"],
    }
