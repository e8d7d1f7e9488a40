"""The budget of the wheel: what the pages add to it."""

from tests.support.page_wheel import measure_pages_in_wheel

MAX_BYTES = 150_000


def test_wheel__pages_add_no_more_than_their_budget() -> None:
    sizes = measure_pages_in_wheel()
    assert {"app/core/web/templates.json", "app/overview/pages.py"} <= sizes.keys()
    assert not any(name.endswith(".html") for name in sizes)
    assert sum(sizes.values()) <= MAX_BYTES
