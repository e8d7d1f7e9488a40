"""The calls of models and tools beside the rows of an experiment, read in step with them."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from app.traces.sources.langfuse.failures import BadResponse
from app.traces.sources.langfuse.spending import Span, span_of
from app.traces.sources.langfuse.windows import RowPage

# Servers order what began in the same minute as they like.
ORDER_SLACK_MS: Final = 60_000


class Calls:
    """Calls of traces whose rows have not come yet; `end` is when the newest may have begun.

    Both come newest first, and a call begins after its task has: once all calls are read that
    began since a row did, all of that row's are there.
    """

    def __init__(self, pages: Iterator[RowPage], *, start: int, end: int) -> None:
        self._pages = pages
        self._start = start
        self._reached = end
        self._waiting = defaultdict[str, list[Span]](list)

    def read_since(self, moment: int) -> None:
        """Read on until every call that began at `moment` or later is there.

        Raises: `BadResponse` when the server goes in a circle: no count tells what is missing.
        """
        while self._reached > moment - ORDER_SLACK_MS:
            page = next(self._pages, None)
            if page is None:
                self._reached = self._start - ORDER_SLACK_MS
                return
            self._keep(page)

    def take(self, trace_id: str) -> list[Span]:
        """The calls of a trace, which are forgotten here."""
        return self._waiting.pop(trace_id, [])

    @property
    def resume_before(self) -> int:
        """The calls that rows to come may need began before this time."""
        # A dictionary keeps its order: the first that waits is the newest.
        newest = next((spans[0].start for spans in self._waiting.values()), self._reached)
        return max(newest, self._reached) + ORDER_SLACK_MS

    def _keep(self, page: RowPage) -> None:
        if page.circled:
            raise BadResponse(
                "Langfuse gave the same page of calls twice, so that tokens and costs cannot be"
                " added up; report it to the operator of the server, then retry"
            )
        spans = [span for span in map(span_of, page.rows) if span is not None]
        for span in spans:
            self._waiting[span.trace_id].append(span)
        if not page.rest:
            self._reached = self._start - ORDER_SLACK_MS
        elif page.rest[0].cursor is None:
            self._reached = page.rest[0].end
        elif spans:
            self._reached = min(span.start for span in spans)
