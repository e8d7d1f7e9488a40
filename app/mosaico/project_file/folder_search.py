"""What a folder holds that a benchmark can be made of: results, items, bash tasks and ot-bench files."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from mosaico.core.console.terminal import warn_failed_plugin
from mosaico.core.errors import AppError
from mosaico.harness.harness_config import MCP_SUFFIXES
from mosaico.traces.files.column_mapping import InvalidMapping
from mosaico.traces.files.configured_limits import within_configured_limits
from mosaico.traces.files.limited_file import UnknownColumns
from mosaico.traces.files.read_options import ReadOptions
from mosaico.traces.files.trace_file import FILE_SUFFIXES, TraceReader
from mosaico.traces.types import Trace

READ_TRACES: Final = 200
MAX_FILES: Final = 40
# A JSON document is read as a whole.
MAX_BYTES: Final = 64 * 1024**2


class ResultPair(NamedTuple):
    """Two files with results of the same items; `later` was written later."""

    earlier: Path
    later: Path
    traces: tuple[Trace, ...]


@dataclass(frozen=True, slots=True)
class FolderSearch:
    """The files of a folder, the newest first; hidden and very large ones are left out. `columns` are those of its
    results by field, where they are not recognized.
    """

    folder: Path
    columns: Mapping[str, str] = field(default_factory=dict)

    def files(self, suffixes: frozenset[str] | tuple[str, ...]) -> list[Path]:
        candidates = [
            path
            for path in self.folder.iterdir()
            if path.suffix.lower() in suffixes and not path.name.startswith(".")
            and path.is_file() and path.stat().st_size <= MAX_BYTES
        ]  # fmt: skip
        newest_first = sorted(candidates, key=lambda p: (-p.stat().st_mtime_ns, p.name))
        return newest_first[:MAX_FILES]

    def find_results(self) -> ResultPair | None:
        """The newest two files with answers to the same items."""
        read: list[tuple[Path, tuple[Trace, ...]]] = []
        for path in self._tables():
            traces = tuple(self._preview(path, are_items=False))
            if not any(trace.output is not None or trace.scores for trace in traces):
                continue
            items = {trace.item_id for trace in traces}
            for newer, newer_traces in read:
                if items & {trace.item_id for trace in newer_traces}:
                    return ResultPair(path, newer, newer_traces)
            read.append((path, traces))
        return None

    def explain_unread(self) -> str | None:
        """Why the columns of the newest table with unknown columns hold no results; None without such a table."""
        for path in self._tables():
            try:
                self._read(path, are_items=False)
            except (UnknownColumns, InvalidMapping) as error:
                return error.detail
            except AppError:
                continue
        return None

    def find_items(self) -> tuple[Path, tuple[Trace, ...]] | None:
        """The newest file with questions."""
        for path in self._tables():
            items = tuple(self._preview(path, are_items=True))
            if any(item.input for item in items):
                return path, items
        return None

    def find_bash_tasks(self) -> tuple[Path, int] | None:
        """The newest file of bash tasks, and their number."""
        for path in self.files((".jsonl", ".ndjson")):
            if count := count_bash_tasks(path):
                return path, count
        return None

    def find_bash_script(self) -> Path | None:
        """The newest file that plays a model, for tasks without a model server."""
        # A harness, which few folders need.
        from mosaico.harness.bash.dataset import parse_script

        for path in self.files((".jsonl",)):
            try:
                with path.open("rb") as lines:
                    parse_script(lines, (), name=str(path))
            except (AppError, OSError):
                continue
            if not count_bash_tasks(path) and path.stat().st_size:
                return path
        return None

    def find_ot_bench(self) -> tuple[Path, int] | None:
        """The newest ot-bench file without errors, and the number of its tasks."""
        # As above.
        from mosaico.harness.lint import LintSeverity
        from mosaico.harness.mcp.loader import load_file
        from mosaico.harness.mcp.secrets import Secrets

        for path in self.files(MCP_SUFFIXES):
            try:
                loaded = load_file(path, Secrets(), {}, undefined=LintSeverity.WARNING)
            except AppError:
                continue
            if loaded.bench is not None and not loaded.errors:
                return path, sum(len(s.tasks) for s in loaded.bench.scenarios)
        return None

    def _preview(self, path: Path, *, are_items: bool) -> list[Trace]:
        """The first traces of a file; none where no importer reads it."""
        try:
            return self._read(path, are_items=are_items)
        except AppError:
            return []

    def _read(self, path: Path, *, are_items: bool) -> list[Trace]:
        mapping = {} if are_items else self.columns
        options = within_configured_limits(ReadOptions(mapping=mapping))
        reader = TraceReader(lambda _line: None, warn_failed_plugin, options)
        with (reader.open_items if are_items else reader.open)(path) as traces:
            return [*islice(traces, READ_TRACES)]

    def _tables(self) -> Iterator[Path]:
        return (path for path in self.files(FILE_SUFFIXES) if not count_bash_tasks(path))


def count_bash_tasks(path: Path) -> int:
    """The number of bash tasks of a file; 0 for a file of anything else."""
    if path.suffix.lower() not in (".jsonl", ".ndjson"):
        return 0
    # As above.
    from mosaico.harness.bash.dataset import read_dataset

    try:
        dataset = read_dataset(path)
    except AppError:
        return 0
    return 0 if dataset.errors else len(dataset.tasks)
