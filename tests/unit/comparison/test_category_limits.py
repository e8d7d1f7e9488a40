"""Of many categories the first 50 by name are computed; the others are counted."""

from app.comparison.category_values import MAX_CATEGORIES, categories_of, first_categories


def test_first_categories__are_the_first_by_name_of_all() -> None:
    features = {f"tag:category:c{number:02d}": frozenset({"i"}) for number in range(60)}
    every = categories_of([dict(reversed(features.items()))], "category")
    first = first_categories(every)
    assert (len(every), len(first)) == (60, MAX_CATEGORIES)
    assert list(first) == [f"c{number:02d}" for number in range(50)]
