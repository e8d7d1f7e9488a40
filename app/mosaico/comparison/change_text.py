"""The numbers of a change as text and as a bar: one format in the terminal, reports and plots; pure."""

import math
from dataclasses import dataclass

from mosaico.core.text import format_decimal, format_number
from mosaico.core.web.change_charts import ChangeBar
from mosaico.kpis import number_text
from mosaico.kpis.verdict_types import ValueVerdict
from mosaico.statistics.verdict_rules import ChangeVerdict, Scale

_SMALLEST_P = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeText:
    """The texts of a change; a part that is unknown is empty.

    `before` and `after` are the values of the runs with their unit, `delta` the change with its
    sign, `interval` and `p` are named: "95 % CI −0.450 to −0.150", "adjusted p 0.012". Where several
    changes are judged together, `interval` is the adjusted one, from which the verdict follows.
    `bounds` and `adjusted_bounds` are the intervals alone: "−0.450 to −0.150".
    """

    before: str
    after: str
    delta: str
    interval: str
    bounds: str
    adjusted_bounds: str
    p: str

    @property
    def values(self) -> str:
        return f"{self.before} → {self.after}"

    @property
    def change(self) -> str:
        """The change with its interval and p: "−0.300 (95 % CI −0.450 to −0.150, p 0.012)"."""
        evidence = ", ".join(filter(None, (self.interval, self.p)))
        return f"{self.delta} ({evidence})" if evidence else self.delta


def describe_change(
    change: ChangeVerdict | ValueVerdict, scale: Scale | None, unit: str | None = None
) -> ChangeText | None:
    """The texts of a change; None when nothing was compared. `unit` is that of the KPI or metric."""
    if change.effect is None:
        return None
    scale = scale_of_change(change, scale)
    change_unit = unit or getattr(change, "unit", None) if scale is Scale.NUMBER else None
    interval = _interval_text(change.low, change.high, scale, change_unit)
    adjusted = _interval_text(change.low_adjusted, change.high_adjusted, scale, change_unit)
    before, after = format_pair(change.baseline_value, change.value, scale, unit)
    return ChangeText(
        before=before,
        after=after,
        delta=number_text.with_unit(
            format_amount(change.effect, scale, has_sign=True), change_unit
        ),
        interval=_named_interval(interval, adjusted),
        bounds=interval,
        adjusted_bounds=adjusted or interval,
        p=_p_text(change.p, change.p_adjusted),
    )


def scale_of_change(change: ChangeVerdict | ValueVerdict, scale: Scale | None) -> Scale | None:
    """The scale of the numbers of a change: from a baseline of 0 there is no relative change."""
    if scale is Scale.RATIO and change.baseline_value is not None and change.baseline_value <= 0:
        return Scale.NUMBER
    return scale


def format_change(verdict: ValueVerdict, unit: str | None = None) -> str:
    """A change in one line: "0.925 → 0.625, −0.300 (95 % CI −0.450 to −0.150, p 0.001)"; empty when
    nothing was compared.
    """
    text = describe_change(verdict, verdict.scale, unit)
    return "" if text is None else f"{text.values}, {text.change}"


def counting_ends(verdict: ValueVerdict) -> tuple[float | None, float | None]:
    """The interval from which the verdict follows: the one that is adjusted for what is judged together."""
    if verdict.low_adjusted is None or verdict.high_adjusted is None:
        return verdict.low, verdict.high
    return verdict.low_adjusted, verdict.high_adjusted


def change_bar(name: str, verdict: ValueVerdict, text: str | None = None) -> ChangeBar | None:
    """The bar of a change, described by `text` or by `format_change`; None without an interval."""
    effect, (low, high) = verdict.effect, counting_ends(verdict)
    if effect is None or low is None or high is None:
        return None
    text = format_change(verdict) if text is None else text
    return ChangeBar(name, text, effect, low, high, verdict.margin or 0.0, str(verdict.verdict))


def format_headline(verdict: ValueVerdict) -> str:
    """A change at a glance: a share with two decimals, "0.60 → 0.42 (−0.18, 95 % CI −0.22 to
    −0.14)", another value as `format_change` has it; empty when nothing was compared.
    """
    before, after, effect = verdict.baseline_value, verdict.value, verdict.effect
    if verdict.scale is not Scale.RATE or before is None or after is None or effect is None:
        return format_change(verdict)
    interval = _named_interval(
        _headline_interval(verdict.low, verdict.high),
        _headline_interval(verdict.low_adjusted, verdict.high_adjusted),
    )
    change = ", ".join(filter(None, (format_decimal(effect, "+.2f"), interval)))
    return f"{_hundredths(before)} → {_hundredths(after)} ({change})"


def format_value(value: float | None, scale: Scale | None = None, unit: str | None = None) -> str:
    """A value of a run with its unit."""
    if value is None:
        return "no value"
    return number_text.format_value(value, unit, is_share=scale is Scale.RATE)


def format_pair(
    before: float | None, after: float | None, scale: Scale | None, unit: str | None
) -> tuple[str, str]:
    """Two values that are read side by side, with the same number of decimals."""
    if before is None or after is None:
        return format_value(before, scale, unit), format_value(after, scale, unit)
    first, second = number_text.format_compared((before, after), unit, is_share=scale is Scale.RATE)
    return first, second


def format_amount(amount: float, scale: Scale | None, *, has_sign: bool = False) -> str:
    """A change or a limit of one, in the unit of its scale."""
    return number_text.format_amount(
        amount,
        is_share=scale is Scale.RATE,
        is_relative=scale is Scale.RATIO,
        has_sign=has_sign,
    )


def format_bound(amount: float, scale: Scale | None) -> str:
    """The end of an interval in a sentence: rounded up, because the change may be as large."""
    if scale is not Scale.NUMBER or amount <= 0:
        return format_amount(amount, scale)
    step = 10.0 ** (math.floor(math.log10(amount)) - 1)
    return format_amount(math.ceil(round(amount / step, 6)) * step, scale)


def format_limit(limit: float, scale: Scale | None) -> str:
    """A configured limit, without trailing zeros."""
    return f"{format_decimal(limit * 100, 'g')} %" if scale is Scale.RATIO else format_number(limit)


def _hundredths(share: float) -> str:
    return format_decimal(share, ".2f")


def _headline_interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{_hundredths(low)} to {_hundredths(high)}"


def _interval_text(
    low: float | None, high: float | None, scale: Scale | None, unit: str | None
) -> str:
    if low is None or high is None:
        return ""
    end = number_text.with_unit(format_amount(high, scale), unit)
    return f"{format_amount(low, scale)} to {end}"


def _named_interval(interval: str, adjusted: str) -> str:
    """The interval that the verdict follows from, with its name."""
    if adjusted and adjusted != interval:
        return f"adjusted 95 % CI {adjusted}"
    return f"95 % CI {interval}" if interval else ""


def _p_text(p: float | None, p_adjusted: float | None) -> str:
    if p_adjusted is None:
        return ""
    label = "p" if p is None or p == p_adjusted else "adjusted p"
    return f"{label} < {_SMALLEST_P:g}" if p_adjusted < _SMALLEST_P else f"{label} {p_adjusted:.2g}"
