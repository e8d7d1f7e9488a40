"""Small charts of figures that grow with the size of a run or the number of workers, as SVG files.

Their colors are readable on a light and on a dark page, and they have no background.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from mosaico.core.web.svg import Axis, escape, label_ticks, list_ticks

FOLDER: Final = os.environ.get("MOSAICO_BENCH_PLOTS")  # the folder of the plots
WIDTH, HEIGHT = 480, 240
LEFT, RIGHT, TOP, BOTTOM = 52, 116, 40, 34
INK: Final = "#7d8590"
COLORS: Final = ("#2f81f7", "#bf8700", "#3fa34d", "#c05bb5")
RADIUS: Final = 4
# Of the names beside the ends of the lines: their least distance.
NAME_SPACE: Final = 14

# The values of a line by size.
Series: TypeAlias = Mapping[int, float]


def write_growth_plot(name: str, title: str, unit: str, lines: Mapping[str, Series]) -> None:
    """Write a chart of lines by their names, if `MOSAICO_BENCH_PLOTS` names a folder; sizes have equal
    distances, and the values begin at 0.
    """
    if FOLDER is not None:
        Path(FOLDER, f"{name}.svg").write_text(growth_plot(title, unit, lines))


def growth_plot(title: str, unit: str, lines: Mapping[str, Series]) -> str:
    """The chart as SVG."""
    body = "\n".join(_elements(title, unit, lines))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}"'
        f' viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="system-ui, sans-serif"'
        f' font-size="12">\n<title>{escape(f"{title} ({unit})")}</title>\n{body}\n</svg>\n'
    )


def _elements(title: str, unit: str, lines: Mapping[str, Series]) -> Iterator[str]:
    sizes = sorted({size for series in lines.values() for size in series})
    highest = max(value for series in lines.values() for value in series.values())
    y = Axis(0.0, highest * 1.05 or 1.0, HEIGHT - BOTTOM, TOP)
    x = Axis(0.0, max(len(sizes) - 1.0, 1.0), LEFT + 16, WIDTH - RIGHT)
    yield _text(8, 20, f"{title} ({unit})", size=14)
    ticks = list_ticks(y.low, y.high)
    for tick, label in zip(ticks, label_ticks(ticks), strict=True):
        pixel = y.pixel(tick)
        yield (
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT + 8}" y1="{pixel:.1f}" y2="{pixel:.1f}"'
            f' stroke="{INK}" stroke-opacity="{0.8 if tick == 0 else 0.25}"/>'
        )
        yield _text(LEFT - 8, pixel + 4, label, anchor="end")
    for index, size in enumerate(sizes):
        yield _text(x.pixel(index), HEIGHT - BOTTOM + 20, f"{size:,}", anchor="middle")
    names_y = _spread([y.pixel(series[max(series)]) for series in lines.values()])
    for (name, series), name_y, color in zip(lines.items(), names_y, COLORS, strict=False):
        points = [(x.pixel(sizes.index(size)), y.pixel(series[size])) for size in sorted(series)]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        yield f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>'
        for size, (px, py) in zip(sorted(series), points, strict=True):
            tooltip = escape(f"{name}, {size:,}: {series[size]:,.4g} {unit}")
            yield (
                f'<circle cx="{px:.1f}" cy="{py:.1f}" r="{RADIUS}" fill="{color}">'
                f"<title>{tooltip}</title></circle>"
            )
        yield _text(points[-1][0] + 12, name_y + 4, name, fill=color)


def _spread(positions: Sequence[float]) -> list[float]:
    """The positions of the names, moved down where they would overlap."""
    spread = dict[int, float]()
    last = float("-inf")
    for index in sorted(range(len(positions)), key=positions.__getitem__):
        last = max(positions[index], last + NAME_SPACE)
        spread[index] = last
    return [spread[index] for index in range(len(positions))]


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", fill: str = INK, size: int = 12
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}"'
        f' font-size="{size}">{escape(text)}</text>'
    )
