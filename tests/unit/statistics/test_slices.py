"""Slices that fell alone: cases by hand, and how often one is found among unchanged slices."""

import numpy as np
import pytest

from mosaico.statistics.slices import find_fallen_slice

MIN_HARM = 0.02


def test_slice__that_falls_while_the_others_stay_is_found() -> None:
    """8 of 10 German items fall from right to wrong, none of the 30 others does."""
    harms = [1.0] * 8 + [0.0] * 32
    slices = {"lang:de": range(10), "lang:fr": range(10, 20), "topic:tax": range(5, 25)}
    fall = find_fallen_slice(harms, slices, MIN_HARM)
    assert fall is not None
    assert (fall.name, fall.items, fall.other_items, fall.slices) == ("lang:de", 10, 30, 3)
    assert (fall.harm, fall.other_harm) == (0.8, 0.0)
    assert fall.p < 0.01


def test_slice__is_not_alone_if_the_others_fell_too() -> None:
    """All German items fall, and half of the others."""
    harms = [1.0] * 10 + [1.0, 0.0] * 15
    assert find_fallen_slice(harms, {"lang:de": range(10)}, MIN_HARM) is None


def test_slice__that_rose_or_has_few_items_is_not_tested() -> None:
    harms = [-1.0] * 10 + [0.0] * 30
    assert find_fallen_slice(harms, {"lang:de": range(10)}, MIN_HARM) is None
    few = [1.0] * 4 + [0.0] * 36
    assert find_fallen_slice(few, {"lang:de": range(4)}, MIN_HARM) is None
    assert find_fallen_slice([], {}, MIN_HARM) is None
    assert find_fallen_slice([0.0] * 20, {"lang:de": range(10)}, MIN_HARM) is None


def test_slice__alone_is_evidence_and_among_many_is_not() -> None:
    """Three of five items fall, and 3 of the 45 others: enough for one slice, not for the worst of fifty."""
    random = np.random.default_rng(3)
    harms = [1.0, 1.0, 1.0, 0.0, 0.0] + [1.0] * 2 + [0.0] * 43
    one = find_fallen_slice(harms, {"lang:de": range(5)}, MIN_HARM)
    assert one is not None
    others = {
        f"topic:{number}": sorted(random.choice(50, 5, replace=False).tolist())
        for number in range(50)
    }
    many = find_fallen_slice(harms, {"lang:de": range(5), **others}, MIN_HARM)
    assert many is None or many.p > one.p


@pytest.mark.prove
def test_slices__of_one_population_are_rarely_found() -> None:
    """At 5 %, among 200 runs in which every item falls by the same chance, at most 20 are called (3.2 standard errors)."""
    random = np.random.default_rng(5)
    slices = {f"topic:{topic}": list(range(topic, 60, 6)) for topic in range(6)}
    found = 0
    for _ in range(200):
        harms = random.choice([-1.0, 0.0, 1.0], 60, p=[0.1, 0.8, 0.1])
        found += find_fallen_slice(harms.tolist(), slices, MIN_HARM) is not None
    assert found <= 20
