"""The budget of the size of pages is that of lists."""

from benchmarks.pages import COMPUTED_PATHS, LISTS, PATHS, PageSize, size_row

SMALL, LARGE = PageSize(50_000, 5_000), PageSize(75_000, 12_800)


def test_size_row__page_of_one_thing_may_be_larger_than_a_list() -> None:
    row = size_row({"/runs?sort=verdict": SMALL, "/incidents/alert-0": LARGE})
    assert row.holds
    assert "/incidents/alert-0 75.0/12.8" in row.note


def test_size_row__list_is_judged_with_any_filter() -> None:
    assert not size_row({"/runs": SMALL, "/runs?text=a&agent=b": LARGE}).holds
    assert not size_row({"/runs": SMALL, "/inbox": PageSize(50_000, 12_001)}).holds


def test_lists__are_measured() -> None:
    assert {path.partition("?")[0] for path in (*PATHS, *COMPUTED_PATHS)} >= LISTS
