"""Numbers with their units as people read them, the same in messages, alerts and verdicts; pure."""

from collections.abc import Sequence

# Names of scales and not of quantities: they add nothing to a number.
DIMENSIONLESS_UNITS = frozenset({"ratio", "score"})
_LARGE = 1000
_SMALL = 1e-9
_SHARE_DIGITS = 2
_MAX_SHARE_DIGITS = 4


def format_number(value: float) -> str:
    """A number with four significant digits, without an exponent from 10^-9 to 10^15."""
    if abs(value) >= 1e15:  # noqa: PLR2004 - no reader counts so many digits
        return f"{value:.4g}"
    if abs(value) >= _LARGE:
        return f"{value:,.0f}"
    text = f"{value:.4g}"
    # Costs of one request are such numbers: 0.0000123 USD.
    return f"{value:.12f}".rstrip("0") if "e" in text and abs(value) >= _SMALL else text


def format_value(value: float, unit: str | None, *, is_share: bool = False) -> str:
    """A value with its unit; shares have two decimals."""
    return format_values([value], unit, is_share=is_share)[0]


def format_values(
    values: Sequence[float], unit: str | None, *, is_share: bool = False
) -> list[str]:
    """Values that are read side by side: shares have as many decimals as tell them apart, at most
    four, and only the last value has the unit.
    """
    suffix = f" {unit}" if unit and unit not in DIMENSIONLESS_UNITS else ""
    if not is_share:
        texts = [format_number(value) for value in values]
    else:
        digits = _SHARE_DIGITS
        while digits < _MAX_SHARE_DIGITS and _are_alike(values, digits):
            digits += 1
        texts = [f"{value:.{digits}f}" for value in values]
    return [*texts[:-1], texts[-1] + suffix]


def _are_alike(values: Sequence[float], digits: int) -> bool:
    texts = {f"{value:.{digits}f}" for value in values}
    return len(texts) < len(set(values))
