"""Numbers with their units as people read them, the same in pages, messages, alerts and verdicts; pure.

Negative numbers have a minus sign; tab-separated tables have hyphens (`mosaico.core.console.table`).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mosaico.core.text import MINUS, format_decimal, format_number
from mosaico.statistics.verdict_rules import Scale

# Names of scales and not of quantities: they add nothing to a number.
DIMENSIONLESS_UNITS = frozenset({"ratio", "score"})
_SIGNIFICANT = 4
_SHARE_DIGITS = 3
_SMALLEST_SHARE = 0.0005


def format_value(value: float, unit: str | None = None, *, is_share: bool = False) -> str:
    """A value with its unit; a share always has three decimals, and so has what looks like one: a value has the same
    digits on all pages and in messages, whether a comparison says what it is or not.
    """
    return with_unit(_format_figure(value, unit, is_share=is_share), unit)


def _format_figure(value: float, unit: str | None, *, is_share: bool) -> str:
    if is_share or (_has_no_dimension(unit) and _SMALLEST_SHARE <= abs(value) < 1):
        return format_decimal(value, f".{_SHARE_DIGITS}f")
    return format_number(value)


def _has_no_dimension(unit: str | None) -> bool:
    return unit is None or unit in DIMENSIONLESS_UNITS


def short_value(value: float, unit: str | None = None, *, is_share: bool = False) -> str:
    """A value with its unit for a title: of a share with three decimals, the last one is left out where it is 0."""
    number = format_value(value, is_share=is_share)
    return with_unit(number.removesuffix("0") if is_share else number, unit)


def with_unit(number: str, unit: str | None) -> str:
    """A number with its unit; names of scales are left out."""
    return number if _has_no_dimension(unit) else f"{number} {unit}"


class FigureFormat(NamedTuple):
    """How pages and charts write the figures of one KPI or metric: the same digits in a table, in a headline, in
    an interval and in the text of a chart.
    """

    unit: str | None
    is_share: bool

    @classmethod
    def of(
        cls,
        values: Iterable[float | None],
        unit: str | None = None,
        scale: Scale | None = None,
    ) -> "FigureFormat":
        """The format of these values: a share is what its comparison calls one; without a comparison, what has
        no unit and lies between 0 and 1.
        """
        if scale is not None:
            return cls(unit, scale is Scale.RATE)
        if not _has_no_dimension(unit):
            return cls(unit, is_share=False)
        # Of smaller values three decimals would show nothing.
        stored = [value for value in values if value]
        return cls(unit, all(_SMALLEST_SHARE <= value <= 1 for value in stored))

    def write(self, value: float) -> str:
        """A value with its unit."""
        return format_value(value, self.unit, is_share=self.is_share)

    def write_pair(self, before: float | None, after: float | None) -> list[str | None]:
        """Two values that are read side by side, with the same number of decimals; None for a missing one."""
        if before is not None and after is not None:
            return list(format_compared([before, after], self.unit, is_share=self.is_share))
        return [None if value is None else self.write(value) for value in (before, after)]

    def write_range(self, low: float | None, high: float | None) -> str | None:
        """An interval or the ends of a range, "0.620 to 0.790"; None without one."""
        if low is None or high is None:
            return None
        return " to ".join(format_values([low, high], self.unit, is_share=self.is_share))


def format_compared(
    values: Sequence[float], unit: str | None = None, *, is_share: bool = False
) -> list[str]:
    """Values of one quantity, each with its unit and with as many decimals as the others: 0.040 beside
    0.039. Zeros are added up to four significant digits.
    """
    texts = [_format_figure(value, unit, is_share=is_share) for value in values]
    decimals = max(len(text.partition(".")[2]) for text in texts)
    return [with_unit(_pad_decimals(text, decimals), unit) for text in texts]


def _pad_decimals(text: str, decimals: int) -> str:
    if not decimals or "," in text or not text.strip(MINUS).replace(".", "").isdecimal():
        return text
    digits = len(text.strip(MINUS).replace(".", "").lstrip("0"))
    zeros = min(decimals - len(text.partition(".")[2]), _SIGNIFICANT - digits)
    if zeros <= 0:
        return text
    return (text if "." in text else f"{text}.") + "0" * zeros


def format_values(
    values: Sequence[float], unit: str | None, *, is_share: bool = False
) -> list[str]:
    """Values that are read side by side: only the last one has the unit."""
    *first, last = (_format_figure(value, unit, is_share=is_share) for value in values)
    return [*first, with_unit(last, unit)]


def format_amount(
    amount: float, *, is_share: bool = False, is_relative: bool = False, has_sign: bool = False
) -> str:
    """A change, or a limit of one: of a share with three decimals, unless it is smaller; a relative
    one in percent.
    """
    sign = "+" if has_sign and amount > 0 else ""
    if is_relative:
        return f"{sign}{format_decimal(amount * 100, '.1f')} %"
    if is_share and (abs(amount) >= _SMALLEST_SHARE or amount == 0):
        # Without the negative zero of a rounding.
        return f"{sign}{format_decimal(amount + 0.0, f'.{_SHARE_DIGITS}f')}"
    # A change that is smaller than its values are written has one digit, not more of them than they.
    shown = float(f"{amount:.1g}") if is_share and has_sign else amount
    return f"{sign}{format_number(shown)}"
