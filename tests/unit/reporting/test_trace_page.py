"""The page of the traces of a run."""

import pytest

from mosaico.reporting.trace_page import _group


@pytest.mark.parametrize(
    ("tags", "group"),
    [
        (["direct", "scenario:all", "task:1f"], "scenario:all"),
        (["category:files", "task:1f"], "category:files"),
        (["task:1f", "nightly"], "nightly"),
        (["task:1f"], ""),
        ([], ""),
    ],
)
def test_group__is_category_or_scenario_before_other_tags(tags: list[str], group: str) -> None:
    assert _group(tags) == group
