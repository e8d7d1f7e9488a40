"""Parts of SVG charts: axes, grids, texts and marks; pure.

Colors are attributes, so that a chart is complete as a file. Each part also has a class, by which the
style sheet of the pages gives it the color of the theme. A verdict has a mark and a text, never a
color alone.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from mosaico.core.symbols import VERDICTS
from mosaico.core.text import format_decimal, html_text, xml_text

WIDTH, HEIGHT = 640, 280
LEFT_MARGIN = 8
TITLE_SIZE = 14
# Of a character of the system font, as a share of its size: an upper estimate of the mean.
CHARACTER_WIDTH = 0.6
# The values stand on the right, beside the newest point: a narrow screen shows that side first.
LEFT, RIGHT, TOP, BOTTOM = 16, 64, 40, 44
MAX_TICKS = 8
# Other ticks are written with an exponent.
SMALLEST_TICK, LARGEST_TICK = 1e-9, 1e9
# Beyond, the difference of two values may overflow.
LARGEST = 1e300

INK, FAINT, LINE, BAND, GRID, LIMIT = (
    "#24292f", "#6e7781", "#0969da", "#ddf4ff", "#d0d7de", "#9a6700",
)  # fmt: skip
_CLASSES: Final = {INK: "ink", FAINT: "faint"}
COLORS: Final = {
    "REGRESSED": "#cf222e",
    "IMPROVED": "#1a7f37",
    "CHANGED": "#0550ae",
    "NO_EVIDENCE": "#57606a",
    "INCONCLUSIVE": "#9a6700",
    "INVALID": "#8250df",
    "NOT_MEASURED": "#57606a",
}


class Axis(NamedTuple):
    """Converts values between `low` and `high` to pixels between `start` and `end`; values beyond are at
    these ends.
    """

    low: float
    high: float
    start: float
    end: float

    def pixel(self, value: float) -> float:
        value = min(max(value, self.low), self.high)
        fraction = (value - self.low) / (self.high - self.low)
        return self.start + fraction * (self.end - self.start)


def build_axis(low: float, high: float, start: float, end: float) -> Axis:
    """An axis with some space at both ends; a single value is in the middle."""
    low, high = (min(max(end, -LARGEST), LARGEST) for end in (low, high))
    space = (high - low) * 0.06 or (abs(high) if abs(high) > SMALLEST_TICK else 10.0) * 0.1
    return Axis(low - space, high + space, start, end)


def list_ticks(low: float, high: float) -> list[float]:
    """Four to eight round numbers between low and high."""
    magnitude = 10 ** math.floor(math.log10((high - low) / 4))
    factor = next(n for n in (1, 2, 5, 10) if (high - low) / (magnitude * n) <= MAX_TICKS)
    step = magnitude * factor
    first = math.ceil(low / step)
    return [round(index * step, 12) for index in range(first, math.floor(high / step) + 1)]


def label_ticks(ticks: Sequence[float], sign: str = "") -> list[str]:
    """The texts of ticks, all with the same number of decimals: 0.90 beside 0.85; `sign` is that of the
    format of Python.
    """
    if any(tick and not SMALLEST_TICK <= abs(tick) < LARGEST_TICK for tick in ticks):
        return [format_decimal(tick, f"{sign}.4g") for tick in ticks]
    decimals = max((len(f"{tick:.12f}".rstrip("0").partition(".")[2]) for tick in ticks), default=0)
    return [format_decimal(tick, f"{sign},.{decimals}f") for tick in ticks]


def draw_grid(y: Axis) -> Iterator[str]:
    """A line and a label for each tick of the vertical axis."""
    ticks = list_ticks(y.low, y.high)
    for tick, label in zip(ticks, label_ticks(ticks), strict=True):
        pixel = y.pixel(tick)
        yield (
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{pixel:.1f}"'
            f' y2="{pixel:.1f}" stroke="{GRID}"/>'
        )
        yield draw_text(WIDTH - RIGHT + 8, pixel + 4, label, fill=FAINT)


def draw_mark(x: float, y: float, verdict: str | None, label: str = "") -> str:
    """The mark of a verdict, a small dot without one; the label is its tooltip, if it has one."""
    mark = VERDICTS.get(verdict or "", "·")
    color = COLORS.get(verdict or "", INK)
    title = f"{label}, {verdict}" if verdict and verdict not in label else label
    return (
        f'<text class="{mark_class("m", verdict)}" x="{x:.1f}" y="{y + 5:.1f}"'
        f' text-anchor="middle" font-size="16" fill="{color}">'
        f"{f'<title>{escape(title)}</title>' if label else ''}{mark}</text>"
    )


def mark_class(prefix: str, verdict: str | None) -> str:
    """The class of a filled (`m`) or stroked (`l`) part in the color of a verdict."""
    return f"{prefix}-{verdict.lower().replace('_', '-')}" if verdict in COLORS else "ink"


def draw_text(
    x: float, y: float, text: str, *, anchor: str = "start", fill: str = INK, size: int = 12
) -> str:
    return (
        f'<text class="{_CLASSES.get(fill, "ink")}" x="{x:.1f}" y="{y:.1f}"'
        f' text-anchor="{anchor}" fill="{fill}" font-size="{size}">{escape(text)}</text>'
    )


def draw_chart(
    title: str,
    description: str,
    body: Iterable[str],
    *,
    height: int = HEIGHT,
    legend: bool = False,
) -> str:
    """A chart as a file: title, white background and the legend of the marks."""
    elements = [
        f'<rect class="paper" width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        _draw_title(title),
        *body,
    ]
    if legend:
        entries = "   ".join(
            f"{mark} {verdict.replace('_', ' ').lower()}" for verdict, mark in VERDICTS.items()
        )
        elements.append(draw_text(LEFT, height - 6, entries, fill=FAINT, size=11))
    return draw_frame(title, description, elements, height=height)


def _draw_title(title: str) -> str:
    """The title on one line; a long one is narrowed, never cut."""
    text = draw_text(LEFT_MARGIN, 20, title, size=TITLE_SIZE)
    width = WIDTH - 2 * LEFT_MARGIN
    if len(title) * TITLE_SIZE * CHARACTER_WIDTH <= width:
        return text
    return text.replace("<text ", f'<text textLength="{width}" lengthAdjust="spacingAndGlyphs" ', 1)


def draw_frame(
    title: str,
    description: str,
    body: Sequence[str],
    *,
    height: int = HEIGHT,
    width: int = WIDTH,
    role: str = "img",
    style: str = "chart",
) -> str:
    """The `<svg>` element with its accessible name and description; `style` is its class."""
    elements = [
        (
            f'<svg class="{style}" xmlns="http://www.w3.org/2000/svg" width="{width}"'
            f' height="{height}" viewBox="0 0 {width} {height}" role="{role}"'
            ' font-family="system-ui, sans-serif" font-size="12">'
        ),
        f"<title>{escape(title)}</title>",
        f"<desc>{escape(description)}</desc>",
    ]
    return "\n".join([*elements, *body, "</svg>"]) + "\n"


def draw_empty_chart(title: str) -> str:
    message = "no data yet"
    return draw_chart(title, message, [draw_text(LEFT, HEIGHT / 2, message, fill=FAINT)])


def escape(text: str) -> str:
    """A text of a user without control characters that XML forbids, and without markup."""
    return html_text(xml_text(text))
