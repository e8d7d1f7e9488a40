"""Of runs with many items, the same ones are selected in each run, by the digests of their IDs."""

import hashlib

import pytest

from mosaico.items import queries as item_queries
from tests.integration.verdicts.conftest import CompleteRun, traces
from tests.support.service import Service
from tests.support.stored import DatabaseReader

ITEMS = 40


@pytest.mark.parametrize("trials", [1, 5])
def test_read_items__selects_the_first_digests(
    service: Service,
    complete_run: CompleteRun,
    monkeypatch: pytest.MonkeyPatch,
    trials: int,
) -> None:
    complete_run("monday", traces(range(5), items=ITEMS, trials=trials))
    [(seq,)] = DatabaseReader(service.resources.db.url).all("SELECT seq FROM benchmark_runs")

    def read_item_ids(max_items: int) -> list[str]:
        monkeypatch.setattr(item_queries, "MAX_ITEMS", max_items)
        with service.resources.db.read() as session:
            matrix = item_queries.read_items(session, {seq: ["ACCURACY"]}, ["ACCURACY"])
            attributes = item_queries.read_attributes(
                session, [seq], cluster_field=None, is_sample=False
            )
        assert attributes.usage.items == matrix.items
        assert len(matrix.item_index) == trials * len(matrix.items)
        assert len(matrix.items) + matrix.left_out == ITEMS
        return matrix.items

    every_item = read_item_ids(item_queries.MAX_ITEMS)
    assert len(every_item) == ITEMS
    by_digest = sorted(every_item, key=lambda item: hashlib.md5(item.encode()).digest())
    assert read_item_ids(12) == sorted(by_digest[:12])
    # As many traces as items, or more: all items are selected.
    assert read_item_ids(ITEMS) == every_item
