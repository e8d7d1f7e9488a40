"""Of runs with many items, the same ones are selected in each run, by the digests of their IDs."""

import hashlib
from collections.abc import Generator, Mapping
from typing import Any

import pytest
from sqlalchemy import TextClause
from sqlalchemy.orm import Session

from mosaico.core import db
from mosaico.items import queries as item_queries
from tests.integration.verdicts.conftest import CompleteRun, traces
from tests.support.service import Service
from tests.support.stored import DatabaseReader

ITEMS = 40


@pytest.mark.parametrize("trials", [1, 5])
def test_read_items__selects_the_first_digests_of_a_share_that_is_large_enough(
    service: Service,
    complete_run: CompleteRun,
    monkeypatch: pytest.MonkeyPatch,
    trials: int,
) -> None:
    """The share that is read at first has enough items only if each trace is an item of its own."""
    complete_run("monday", traces(range(5), items=ITEMS, trials=trials))
    [(seq,)] = DatabaseReader(service.resources.db.url).all("SELECT seq FROM benchmark_runs")
    last_digests = list[str]()
    stream_rows = db.stream_rows

    def note_share(
        session: Session, statement: TextClause, parameters: Mapping[str, Any]
    ) -> Generator[tuple[Any, ...], None, None]:
        last_digests.append(parameters["last_digest"])
        return stream_rows(session, statement, parameters)

    def read_item_ids() -> list[str]:
        with service.resources.db.read() as session:
            matrix = item_queries.read_items(session, {seq: ["ACCURACY"]}, ["ACCURACY"])
            attributes = item_queries.read_attributes(
                session, [seq], cluster_field=None, is_sample=False
            )
        assert attributes.usage.items == matrix.items
        assert len(matrix.item_index) == trials * len(matrix.items)
        assert len(matrix.items) + matrix.left_out == ITEMS
        return matrix.items

    every_item = read_item_ids()
    assert len(every_item) == ITEMS
    monkeypatch.setattr(item_queries, "stream_rows", note_share)
    monkeypatch.setattr(item_queries, "MAX_ITEMS", 12)
    by_digest = sorted(every_item, key=lambda item: hashlib.md5(item.encode()).digest())
    assert read_item_ids() == sorted(by_digest[:12])
    # The first share of all 200 traces has too few of the 40 items.
    assert (len(set(last_digests)) > 1) == (trials > 1)
    assert min(last_digests) < "9"
