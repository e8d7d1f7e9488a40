"""Tables of results in notebooks: HTML, and data frames where pandas is installed."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from mosaico.core.extras import require_extra
from mosaico.core.reports import html_table
from mosaico.core.text import aligned_lines, html_text

if TYPE_CHECKING:
    import pandas as pd

MAX_ROWS = 10


def html_of(headline: str, titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A heading and a table for a notebook; every text is escaped."""
    return f"<p><strong>{html_text(headline)}</strong></p>{html_table(titles, rows)}"


def text_of(headline: str, titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A heading and a table in aligned columns, of the first ten rows."""
    table = [[*row] for row in rows]
    printed_rows = [[*titles], *table[:MAX_ROWS]]
    lines = aligned_lines(printed_rows)
    more = [f"… {len(table) - MAX_ROWS} more"] if len(table) > MAX_ROWS else []
    return "\n".join([headline, *(lines if table else []), *more])


def frame_of(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> "pd.DataFrame":
    """A data frame with these columns; without rows an empty one. Raises: `MissingPackages`."""
    require_extra("pandas", "data frames")
    # It is large, and only notebooks want it.
    import pandas as pd

    return pd.DataFrame(rows, columns=list(columns))
