"""Tests of a group run in one process: servers and browsers are started once, not in every process."""

import pytest


@pytest.mark.xdist_group("groups of tests")
def test_group__is_part_of_the_id_by_which_tests_are_handed_out(
    request: pytest.FixtureRequest,
) -> None:
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("this run has one process")
    assert request.node.nodeid.endswith("@groups of tests")
