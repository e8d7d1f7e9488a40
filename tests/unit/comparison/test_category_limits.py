"""Of many categories 50 are computed together, by name; the others are counted, and follow after the last one."""

from mosaico.comparison.category_values import MAX_CATEGORIES, categories_of, select_categories


def test_select_categories__gives_every_category_once() -> None:
    features = {f"tag:category:c{number:02d}": frozenset({"i"}) for number in range(60)}
    every = categories_of([dict(reversed(features.items()))], "category")
    first = select_categories(every, None)
    assert (len(every), len(first.categories)) == (60, MAX_CATEGORIES)
    assert list(first.categories) == [f"c{number:02d}" for number in range(50)]
    assert (first.left_out, first.last) == (10, "c49")
    others = select_categories(every, first.last)
    assert list(others.categories) == [f"c{number:02d}" for number in range(50, 60)]
    assert (others.left_out, others.last) == (0, None)


def test_select_categories__limit_is_at_most_50() -> None:
    every = categories_of(
        [{f"tag:category:c{number:02d}": {"i"} for number in range(60)}], "category"
    )
    assert list(select_categories(every, "c57", 1).categories) == ["c58"]
    assert len(select_categories(every, None, 200).categories) == MAX_CATEGORIES
    assert select_categories(every, "z") == ({}, 0)
    assert select_categories(every, "z").last is None
