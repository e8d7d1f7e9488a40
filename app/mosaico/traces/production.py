"""Production traces: what a run reads instead of the traces of a dataset run; pure."""

import hashlib
import heapq
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Annotated, Final, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from mosaico.core.schemas import Instant, ShortText, WireModel, explain_pattern
from mosaico.traces.types import Trace

UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
# Traces are readable some time after they ended, and the root of a trace is written last.
DEFAULT_LAG: Final = "15m"
MAX_SAMPLE: Final = 100_000
MAX_FILTER_VALUES: Final = 100
METADATA_PREFIX: Final = "metadata."
_MIN_RANKS: Final = 1000
ITEM_KEY_PATTERN: Final = r"^(input|name|session|user|metadata\.[^\s]{1,100})$"

# How long a text says something lasts, such as 30m, 24h or 7d.
_DURATION_PATTERN: Final = r"^(0|[1-9][0-9]{0,4})[mhdw]$"
Duration = Annotated[
    str,
    Field(pattern=_DURATION_PATTERN, examples=["24h"]),
    explain_pattern(
        _DURATION_PATTERN, "should be a number with m, h, d or w (minutes to weeks), such as 24h"
    ),
]
FilterValues = Annotated[list[ShortText], Field(max_length=MAX_FILTER_VALUES)]
MetadataFilter = Annotated[dict[ShortText, ShortText], Field(max_length=20)]


def parse_duration(text: str) -> timedelta:
    """The duration of a text such as `30m`, `24h`, `7d` or `2w`."""
    number, unit = re.fullmatch(r"(\d+)([mhdw])", text).groups()  # type: ignore[union-attr]
    return timedelta(**{UNITS[unit]: int(number)})


class TraceWindow(WireModel):
    """A range of start times of traces: `from` is included, `to` is not."""

    from_: Annotated[
        Instant,
        Field(alias="from", description="Only traces that started at or after this time."),
    ]
    to: Annotated[Instant, Field(description="Only traces that started before this time.")]

    @model_validator(mode="after")
    def _require_order(self) -> Self:
        if self.from_ >= self.to:
            raise PydanticCustomError("empty_window", "from must be before to")
        return self


class ScoreFilter(WireModel):
    """The traces that have a score: a number between `min` and `max`, both included, or a label."""

    name: ShortText
    min: float | None = None
    max: float | None = None
    label: ShortText | None = None

    @model_validator(mode="after")
    def _require_one_kind(self) -> Self:
        has_range = self.min is not None or self.max is not None
        if has_range == (self.label is not None):
            raise PydanticCustomError(
                "score_filter", "send min, max or both for a number, or label for a category"
            )
        return self


class TraceFilters(WireModel):
    """Which traces are read; a trace has to pass every filter that is set.

    A list passes a trace with any of its values, except `tags`, which passes a trace with all of them.
    """

    name: ShortText | None = None
    tags: FilterValues = Field(default_factory=list)
    environment: FilterValues = Field(default_factory=list)
    release: ShortText | None = None
    version: ShortText | None = None
    user: FilterValues = Field(default_factory=list)
    session: FilterValues = Field(default_factory=list)
    metadata: MetadataFilter = Field(default_factory=dict)
    score: ScoreFilter | None = None


class ProductionTraces(WireModel):
    """Read the traces of a time window instead of a dataset run.

    The window is exact (`window`), or ends `lag` before the run is created and is `since` long. The
    plan of a run holds the exact window. `sampleSize` limits the number of traces: the same `seed`
    selects the same traces of a window.
    """

    since: Duration | None = Field(default=None, description="Length of the window, such as 24h.")
    lag: Duration = Field(
        default=DEFAULT_LAG,
        description="Time between the end of the window and the run, in which late traces arrive.",
    )
    window: TraceWindow | None = None
    filters: TraceFilters = Field(default_factory=TraceFilters)
    sample_size: Annotated[int, Field(ge=1, le=MAX_SAMPLE)] | None = Field(
        default=None, description="Largest number of traces to read. Default: all."
    )
    seed: Annotated[int, Field(ge=0)] = 0
    item_key: str | None = Field(
        default=None,
        pattern=ITEM_KEY_PATTERN,
        description=(
            "Field that identifies an item in every window: input, name, session, user, or "
            "metadata.<key>. Without it, runs are compared as two samples."
        ),
    )

    @model_validator(mode="after")
    def _require_one_window(self) -> Self:
        if (self.since is None) == (self.window is None):
            raise PydanticCustomError("window", "send either since or window")
        if self.since is not None and not parse_duration(self.since):
            raise PydanticCustomError("window", "since must be longer than 0")
        return self

    @property
    def is_paired(self) -> bool:
        """Return whether runs share items; otherwise each trace is an item of its own."""
        return self.item_key is not None

    @property
    def exact_window(self) -> TraceWindow:
        """The window of a frozen plan."""
        assert self.window is not None, "a plan holds the exact window"
        return self.window

    def frozen(self, window: TraceWindow | None, now: datetime) -> "ProductionTraces":
        """The same selection with an exact window: the given one, or that of a run created `now`."""
        end = now - parse_duration(self.lag)
        if window is None and self.since is not None:
            window = TraceWindow(from_=end - parse_duration(self.since), to=end)
        return self.model_copy(update={"since": None, "window": window or self.window})


def sampling_rank(seed: int, trace_id: str) -> str:
    """The position of a trace in the order by which a sample is drawn: the first ones are read.

    Equal to `md5(seed || ':' || trace_id)` in Postgres. Late traces change a sample only by their own
    number.
    """
    return hashlib.md5(f"{seed}:{trace_id}".encode(), usedforsecurity=False).hexdigest()


def draw_sample(seed: int, trace_ids: Iterable[str], size: int | None, after: str) -> list[str]:
    """The IDs with the `size` smallest ranks above the rank `after`, in order of rank; all without a
    size. An ID may come several times.
    """
    ranks: dict[str, str] = {}
    for trace_id in trace_ids:
        rank = sampling_rank(seed, trace_id)
        if rank > after:
            ranks[rank] = trace_id
        if size is not None and len(ranks) > 2 * size + _MIN_RANKS:
            # A window can hold many times the sample.
            ranks = dict(heapq.nsmallest(size, ranks.items()))
    ordered = [trace_id for _, trace_id in sorted(ranks.items())]
    return ordered if size is None else ordered[:size]


def item_id_of(item_key: str | None, trace: Trace) -> str:
    """The item ID of a production trace: its trace ID without a key, or without a value of the key.

    The input is represented by its digest, because an ID is short.
    """
    if item_key == "input":
        text = trace.input
        return hashlib.sha256(text.encode()).hexdigest()[:32] if text else trace.trace_id
    value = trace.attributes.get((item_key or "").removeprefix(METADATA_PREFIX))
    return value or trace.trace_id
