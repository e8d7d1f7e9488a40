"""Tables of results in notebooks: HTML, and data frames where pandas is installed."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from app.core.errors import AppError
from app.core.text import html_table, html_text

if TYPE_CHECKING:
    import pandas as pd

__all__ = ("PandasMissing", "frame_of", "html_of")


class PandasMissing(AppError):
    """`to_pandas()` needs pandas; install it: pip install pandas."""

    code = "pandas-missing"


def html_of(headline: str, titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A heading and a table for a notebook; every text is escaped."""
    return f"<p><strong>{html_text(headline)}</strong></p>{html_table(titles, rows)}"


def frame_of(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> "pd.DataFrame":
    """A data frame with these columns; without rows an empty one. Raises: `PandasMissing`."""
    # pandas is no dependency: it is large, and only notebooks want it.
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise PandasMissing from None
    return pd.DataFrame(rows, columns=list(columns))
