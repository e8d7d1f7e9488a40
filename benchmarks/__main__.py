"""`make bench`: every ratio that the project promises, beside its peer, on this machine now.

`python -m benchmarks storage formula` measures only those groups, and `python -m benchmarks
collecting` one that takes long and is left out otherwise.
"""

import sys
from collections.abc import Callable, Iterator

from benchmarks import (
    api,
    bash_eval,
    cli,
    collecting,
    formula,
    langfuse,
    mcp,
    memory,
    metrics,
    scale,
    schedules,
    statistics,
    storage,
    takeover,
)
from benchmarks.rows import BenchRow

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
    "bash": bash_eval.measure,
    "mcp": mcp.measure,
    "api": api.measure,
}
ONLY_BY_NAME: dict[str, Callable[[], Iterator[BenchRow]]] = {"collecting": collecting.measure}


def main(names: list[str]) -> None:
    known_groups = GROUPS | ONLY_BY_NAME
    unknown = set(names) - set(known_groups)
    if unknown:
        raise SystemExit(f"no group {', '.join(sorted(unknown))}; known: {', '.join(known_groups)}")
    print(f"{'row':<16}{'ratio':>9}  {'goal':<7} what was measured")
    missed = 0
    for name in names or GROUPS:
        for row in known_groups[name]():
            missed += not row.holds
            verdict = "holds" if row.holds else "MISSED"
            print(
                f"{row.name:<16}{row.ratio:>9.2f}  {verdict:<7} {row.goal}: {row.note}", flush=True
            )
    print(f"\n{missed} goals missed" if missed else "\nevery goal holds")


if __name__ == "__main__":
    main(sys.argv[1:])
