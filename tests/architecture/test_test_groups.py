"""Tests of a group run in one process: servers and browsers are started once, not in every process."""

import pytest

from tests.support.scheduling import FileScheduling


@pytest.mark.xdist_group("groups of tests")
def test_group__is_part_of_the_id_by_which_tests_are_handed_out(
    request: pytest.FixtureRequest,
) -> None:
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("this run has one process")
    assert request.node.nodeid.endswith("@groups of tests")


@pytest.mark.parametrize(
    ("test", "unit_of_work"),
    [
        ("tests/unit/core/test_ids.py::test_ids__sort", "tests/unit/core/test_ids.py"),
        ("tests/unit/core/test_ids.py::test_ids__sort[a::b@c]", "tests/unit/core/test_ids.py"),
        ("tests/e2e/test_serve.py::test_serve__ends", "tests/e2e/test_serve.py::test_serve__ends"),
        ("tests/e2e/test_serve.py::test_serve__ends[a]@serve", "serve"),
    ],
)
def test_scheduling__hands_out_a_group_or_a_file_or_a_long_test(
    test: str, unit_of_work: str
) -> None:
    scheduling = FileScheduling.__new__(FileScheduling)
    assert scheduling._split_scope(test) == unit_of_work
