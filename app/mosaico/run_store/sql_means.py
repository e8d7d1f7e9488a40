"""Means of metric values in Postgres, which ends a statement with an error where a sum overflows."""

from typing import Any, Final

from sqlalchemy import ColumnElement, case, func

# Postgres adds the squares of the values as well: those of larger ones are beyond the range.
LARGEST_SUMMED: Final = 1e150


def sql_mean(value: str, condition: str = "true") -> str:
    """The mean of a column where a condition holds; NULL where one of the values is too large to sum."""
    return (
        f"CASE WHEN max(abs({value})) FILTER (WHERE {condition}) < {LARGEST_SUMMED}"
        f" THEN avg({value}) FILTER (WHERE {condition} AND abs({value}) < {LARGEST_SUMMED}) END"
    )


def mean_of(value: ColumnElement[Any]) -> ColumnElement[float | None]:
    """`sql_mean` of an expression."""
    size = func.abs(value)
    return case(
        (func.max(size) < LARGEST_SUMMED, func.avg(value).filter(size < LARGEST_SUMMED)), else_=None
    )
