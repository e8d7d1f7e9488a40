"""The traces of a run are divided into shards of a number of traces, and of about a number of bytes."""

import pytest

from mosaico.run_store.shard_ranges import list_shard_ranges
from tests.support.service import Service


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([1, 1, 1, 1, 1, 1, 1], [(0, 2), (3, 5), (6, 6)]),
        # The second three have 80 bytes: the first two of them stay below 60, the third one ends a shard of its own.
        ([1, 1, 1, 25, 30, 25, 1], [(0, 2), (3, 4), (5, 5), (6, 6)]),
        # A trace that is too large alone.
        ([90, 1, 1, 1, 1, 1], [(0, 2), (3, 5)]),
        ([1, 70, 70, 1], [(0, 0), (1, 1), (2, 2), (3, 3)]),
    ],
)
def test_list_shard_ranges__have_three_traces_or_sixty_bytes(
    service: Service, sizes: list[int], expected: list[tuple[int, int]]
) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ACCURACY"])
    service.upload(
        {"traceId": f"t-{n}", "itemId": f"i-{n}", "expectedOutput": "x" * size}
        for n, size in enumerate(sizes)
    )
    run = service.complete_run()
    with service.resources.db.read() as session:
        ranges = list_shard_ranges(session, run["id"], traces=3, size_bytes=60)
    assert ranges == expected
