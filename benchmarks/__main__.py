"""`make bench`: measures every performance goal of the project on this machine, in about half an hour.

`python -m benchmarks storage api` measures only these groups. The groups of `ONLY_BY_NAME` take long, need
much space or install a peer, and run only if they are named. Most have variables of the environment for other sizes: see their
modules.
"""

import sys
from collections.abc import Callable, Iterator

from benchmarks import (
    api,
    bombs,
    collection,
    history,
    large_runs,
    lists,
    many_runs,
    metrics,
    pages,
    run,
    schedules,
    start,
    storage,
    takeover,
    waits,
)
from benchmarks.result_rows import BenchRow

# To add a group: a module with `measure() -> Iterator[BenchRow]`, and a line here.
GROUPS: dict[str, Callable[[], Iterator[BenchRow]]] = {
    "metrics": metrics.measure,
    "api": api.measure,
    "lists": lists.measure,
    "storage": storage.measure,
    "schedules": schedules.measure,
    "takeover": takeover.measure,
    "start": start.measure,
    "run": run.measure,
    "pages": pages.measure,
}
ONLY_BY_NAME: dict[str, Callable[[], Iterator[BenchRow]]] = {
    "bombs": bombs.measure,
    "collection": collection.measure,
    "history": history.measure,
    "large-runs": large_runs.measure,
    "many-runs": many_runs.measure,
    "waits": waits.measure,
}


def main(names: list[str]) -> None:
    if {"-h", "--help"} & {*names}:
        print(__doc__)
        print(f"groups: {', '.join(GROUPS)}; by name only: {', '.join(ONLY_BY_NAME)}")
        return
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
    if missed_count:
        raise SystemExit(f"\n{missed_count} goals missed")
    print("\nall goals met")


if __name__ == "__main__":
    main(sys.argv[1:])
