"""A trace source: the dataset name is the number of traces; pages of ten."""

from collections.abc import Iterator

from mosaico.plugins import AddPlugin, SourceSpec, Trace, TracePage, TraceQuery


class CountingSource:
    """Produces numbered traces whose output repeats the number three times."""

    def pages(self, query: TraceQuery, cursor: str | None) -> Iterator[TracePage]:
        start, total = int(cursor or 0), int(query.dataset_ref or 0)
        while start < total:
            numbers = range(start, min(start + 10, total))
            start = numbers.stop
            yield TracePage(
                traces=tuple(
                    Trace(trace_id=f"t-{n}", item_id=f"i-{n}", output=f"{n} {n} {n}")
                    for n in numbers
                ),
                cursor=None if start == total else str(start),
                total=total,
            )


def register(add: AddPlugin[SourceSpec]) -> None:
    add("sample-counting", SourceSpec(open=lambda resources: CountingSource()))  # noqa: ARG005
