"""The texts of the items that a comparison of files shows."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from mosaico.traces.files.result_sources import ResultSource
from mosaico.traces.files.trace_file import TraceReader
from mosaico.traces.types import Trace

# Of a file with more, the few texts that are shown are read again.
MAX_KEPT_CHARS: Final = 20_000_000


class FirstTexts(NamedTuple):
    """The texts of the first trace of an item in a file."""

    input: str | None
    expected: str | None
    output: str | None

    @classmethod
    def of(cls, trace: Trace) -> "FirstTexts":
        return cls(trace.input, trace.expected_output, trace.output)

    @property
    def chars(self) -> int:
        return sum(map(len, filter(None, self)))


class TextKeepingReader:
    """Opens files, and keeps the texts of the first trace of each item of some of them: which items will be shown is known
    when both files are measured. Provides `TraceOpener`.
    """

    def __init__(self, reader: TraceReader, kept: Sequence[ResultSource]) -> None:
        self._reader = reader
        self._kept = {id(source) for source in kept}
        self._texts: dict[int, Mapping[str, FirstTexts]] = {}

    @contextmanager
    def open(self, path: ResultSource) -> Iterator[Iterator[Trace]]:
        """The traces of a file, read while they are used. Raises as `TraceReader.open`."""
        with self._reader.open(path) as traces:
            yield self._keep(path, traces) if id(path) in self._kept else traces

    def texts_of(self, path: ResultSource, items: Collection[str]) -> dict[str, FirstTexts]:
        """The texts of these items of a file that was read to its end."""
        kept = self._texts.get(id(path))
        if kept is None:
            return dict(self._read_again(path, items))
        return {item: kept[item] for item in items if item in kept}

    def _keep(self, path: ResultSource, traces: Iterator[Trace]) -> Iterator[Trace]:
        texts: dict[str, FirstTexts] = {}
        remaining = MAX_KEPT_CHARS
        for trace in traces:
            if remaining >= 0 and trace.item_id not in texts:
                texts[trace.item_id] = first = FirstTexts.of(trace)
                remaining -= first.chars
                if remaining < 0:
                    texts = {}
            yield trace
        if remaining >= 0:
            self._texts[id(path)] = texts

    def _read_again(
        self, path: ResultSource, items: Collection[str]
    ) -> Iterator[tuple[str, FirstTexts]]:
        missing = {*items}
        with self._reader.open(path) as traces:
            for trace in traces:
                if trace.item_id in missing:
                    missing.remove(trace.item_id)
                    yield trace.item_id, FirstTexts.of(trace)
                if not missing:
                    return
