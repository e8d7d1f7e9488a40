"""Tests of a group run in one process: servers and browsers are started once, not in every process."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.scheduling import FileScheduling, order_items


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


def collected_test(nodeid: str, group: str = "") -> Any:
    marker = SimpleNamespace(args=[group]) if group else None
    return SimpleNamespace(nodeid=nodeid, get_closest_marker=lambda _: marker)


def test_order__groups_come_first_and_waiting_tests_beside_others() -> None:
    items = [
        collected_test("tests/browser/test_a.py::test_a"),
        collected_test("tests/e2e/test_b.py::test_b"),
        collected_test("tests/e2e/test_b.py::test_c"),
        collected_test("tests/integration/test_d.py::test_d"),
        collected_test("tests/integration/test_d.py::test_e"),
        collected_test("tests/integration/test_f.py::test_f"),
        collected_test("tests/unit/test_g.py::test_g"),
        collected_test("tests/unit/test_g.py::test_h", group="one server"),
    ]

    order_items(items)

    assert "".join(item.nodeid[-1] for item in items) == "hbdecfag"
