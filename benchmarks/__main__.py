"""`make bench`: every ratio that the project promises, beside its peer, on this machine now.

`python -m benchmarks storage formula` measures only those groups.
"""

import sys
from collections.abc import Callable, Iterator

from benchmarks import cli, formula, langfuse, memory, metrics, storage, takeover
from benchmarks.rows import BenchRow

GROUPS: dict[str, Callable[[], Iterator[BenchRow]]] = {
    "metrics": metrics.measure,
    "formula": formula.measure,
    "storage": storage.measure,
    "memory": memory.measure,
    "takeover": takeover.measure,
    "cli": cli.measure,
    "langfuse": langfuse.measure,
}


def main(names: list[str]) -> None:
    unknown = set(names) - set(GROUPS)
    if unknown:
        raise SystemExit(f"no group {', '.join(sorted(unknown))}; known: {', '.join(GROUPS)}")
    print(f"{'row':<16}{'ratio':>9}  {'goal':<7} what was measured")
    missed = 0
    for name in names or GROUPS:
        for row in GROUPS[name]():
            missed += not row.holds
            verdict = "holds" if row.holds else "MISSED"
            print(
                f"{row.name:<16}{row.ratio:>9.2f}  {verdict:<7} {row.goal}: {row.note}", flush=True
            )
    print(f"\n{missed} goals missed" if missed else "\nevery goal holds")


if __name__ == "__main__":
    main(sys.argv[1:])
