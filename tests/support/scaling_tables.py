"""The tables of `docs/scaling.md`, from the constants and the model of `mosaico.sizing`.

`python -m tests.support.scaling_tables` writes them into the page.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from mosaico import sizing
from mosaico.sizing import METRIC_CPU, Measured, SizingLoad, size_installation
from mosaico.sizing_cli import format_share, size_rows

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "scaling.md"
# Nights of 10⁶, 10⁸ and 10¹⁰ traces.
LOADS: Final = (
    SizingLoad(10**6, 200),
    SizingLoad(10**8, 2_000),
    SizingLoad(10**10, 20_000),
)


def constants_table() -> str:
    """Each measured constant with its unit and source."""
    constants = {f"own CPU of {name}": constant for name, constant in METRIC_CPU.items()} | {
        name.replace("_", " ").lower(): value
        for name, value in vars(sizing).items()
        if isinstance(value, Measured)
    }
    rows = [
        (name, f"{constant.value:,g}", constant.unit, f"`{constant.source}`")
        for name, constant in constants.items()
    ]
    return _table(("constant", "value", "unit", "source"), rows)


def sizes_table() -> str:
    """What each of the loads needs."""
    sizes = [size_rows(size_installation(load)) for load in LOADS]
    rows = [(rows[0][0], *(value for _, value in rows)) for rows in zip(*sizes, strict=True)]
    return _table(("", *(f"{load.traces:,} traces, {load.runs:,} runs" for load in LOADS)), rows)


def limits_table() -> str:
    """Which parts each of the loads outgrows or nearly outgrows, the first one first, and what replaces
    them.
    """
    sizes = ((load, size_installation(load)) for load in LOADS)
    rows = [
        (f"{load.traces:,}", limit.part, format_share(limit.share), limit.remedy)
        for load, size in sizes
        for limit in size.strained or size.limits[:1]
    ]
    return _table(("traces per night", "part", "used share of its capacity", "replacement"), rows)


TABLES: Final[Mapping[str, Callable[[], str]]] = MappingProxyType(
    {"constants": constants_table, "sizes": sizes_table, "limits": limits_table}
)


def page() -> str:
    """The whole page with fresh tables; each stands between two marks with its name."""
    text = PAGE.read_text()
    for name, build in TABLES.items():
        begin, end = f"<!-- table {name} -->\n", "<!-- end -->"
        pattern = re.escape(begin) + r".*?" + re.escape(end)
        text, count = re.subn(pattern, lambda _: begin + build() + end, text, flags=re.DOTALL)  # noqa: B023 - called at once
        if count != 1:
            raise ValueError(f"{PAGE.name} has the table {name} {count} times")
    return text


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "".join(_lines([titles, ["---"] * len(titles), *rows]))


def _lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    return (f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    PAGE.write_text(page())
