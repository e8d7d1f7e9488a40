"""`make bench`: measures every performance goal of the project on this machine.

`python -m benchmarks storage formula` measures only these groups. `collection`, `takeover-busy` and
`large` take long and run only if they are named; `python -m benchmarks large start` measures one part of `large`.
"""

import sys
from collections.abc import Callable, Iterator

from benchmarks import (
    api,
    bash_eval,
    cli,
    collection,
    formula,
    langfuse,
    large,
    lists,
    load,
    mcp,
    memory,
    metrics,
    otel,
    pages,
    scale,
    schedules,
    statistics,
    storage,
    takeover,
)
from benchmarks.result_rows import BenchRow

GROUPS: dict[str, Callable[[], Iterator[BenchRow]]] = {
    "metrics": metrics.measure,
    "formula": formula.measure,
    "statistics": statistics.measure,
    "storage": storage.measure,
    "memory": memory.measure,
    "takeover": takeover.measure,
    "schedules": schedules.measure,
    "scale": scale.measure,
    "cli": cli.measure,
    "langfuse": langfuse.measure,
    "otel": otel.measure,
    "bash": bash_eval.measure,
    "mcp": mcp.measure,
    "api": api.measure,
    "lists": lists.measure,
    "pages": pages.measure,
    "load": load.measure,
}
ONLY_BY_NAME: dict[str, Callable[[], Iterator[BenchRow]]] = {
    "collection": collection.measure,
    "takeover-busy": takeover.measure_busy,
}


def main(names: list[str]) -> None:
    match names:
        case ["large"]:
            print_rows(large.PARTS, list(large.PARTS))
        case ["large", *parts]:
            print_rows(large.PARTS, parts)
        case _:
            print_rows(GROUPS | ONLY_BY_NAME, names or list(GROUPS))


def print_rows(groups: dict[str, Callable[[], Iterator[BenchRow]]], names: list[str]) -> None:
    unknown = set(names) - set(groups)
    if unknown:
        raise SystemExit(
            f"unknown groups: {', '.join(sorted(unknown))}; known: {', '.join(groups)}"
        )
    print(f"{'row':<16}{'ratio':>9}  {'goal':<7} what was measured")
    missed_count = 0
    for name in names:
        for row in groups[name]():
            missed_count += not row.holds
            verdict = "met" if row.holds else "MISSED"
            print(
                f"{row.name:<16}{row.ratio:>9.2f}  {verdict:<7} {row.goal}: {row.note}", flush=True
            )
    print(f"\n{missed_count} goals missed" if missed_count else "\nall goals met")


if __name__ == "__main__":
    main(sys.argv[1:])
