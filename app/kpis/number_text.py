"""Numbers with their units as people read them, the same in pages, messages, alerts and verdicts; pure.

Negative numbers have a minus sign; tab-separated tables have hyphens (`app.core.console.table`).
"""

from collections.abc import Sequence

from app.core.text import MINUS, format_decimal, format_number

# Names of scales and not of quantities: they add nothing to a number.
DIMENSIONLESS_UNITS = frozenset({"ratio", "score"})
_SIGNIFICANT = 4
_SHARE_DIGITS = 3
_SMALLEST_SHARE = 0.0005


def format_value(value: float, unit: str | None = None, *, is_share: bool = False) -> str:
    """A value with its unit; a share always has three decimals."""
    number = format_decimal(value, f".{_SHARE_DIGITS}f") if is_share else format_number(value)
    return number if unit is None or unit in DIMENSIONLESS_UNITS else f"{number} {unit}"


def format_compared(
    values: Sequence[float], unit: str | None = None, *, is_share: bool = False
) -> list[str]:
    """Values of one quantity, each with its unit and with as many decimals as the others: 0.040 beside
    0.039. Zeros are added up to four significant digits.
    """
    texts = [format_value(value, is_share=is_share) for value in values]
    decimals = max(len(text.partition(".")[2]) for text in texts)
    padded = [_pad_decimals(text, decimals) for text in texts]
    return (
        padded
        if unit is None or unit in DIMENSIONLESS_UNITS
        else [f"{text} {unit}" for text in padded]
    )


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
    *first, last = values
    texts = [format_value(value, is_share=is_share) for value in first]
    return [*texts, format_value(last, unit, is_share=is_share)]


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
    return f"{sign}{format_number(amount)}"
