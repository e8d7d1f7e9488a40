"""Result files of evaluation tools: recorded ones, and small ones in the same shape."""

import io
import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mosaico.core.registry import LoadedPlugin
from mosaico.traces.files.importer_registry import load_importers
from mosaico.traces.files.read_options import ReadOptions
from mosaico.traces.files.result_sources import open_import
from mosaico.traces.files.trace_file import read_file
from mosaico.traces.types import Trace

_DEFAULT_DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
DATA = Path(os.environ.get("MOSAICO_TEST_DATA", _DEFAULT_DATA)) / "imports"


def write_file(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def refuse_plugin(failure: LoadedPlugin) -> None:
    """Fail the test: every importer must load."""
    pytest.fail(f"{failure.name}: {failure.error}")


class Imported:
    """What an importer read from a file: `notes` are its sentences, `lines` those of the report."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        load_importers(refuse_plugin)
        with open_import(path, options) as file:
            reading = read_file(file)
            self.format = reading.importer_name
            self.traces = list(reading.traces)
            report = reading.report
            self.directions = {**reading.imported.directions}
            self.columns, self.notes = report.columns, [*report.notes]
            self.left_out = [*report.counts.describe_left_out()]
            self.opened = [*report.counts.describe_opened()]
            self.lines = [*report.lines()]
            self.row_count, self.lost = report.counts.rows, report.counts.lost_rows.counts

    def of(self, item: str, trial: int = 0) -> Trace:
        [trace] = [t for t in self.traces if (t.item_id, t.trial) == (item, trial)]
        return trace


def import_path(
    path: Path, format_name: str | None = None, options: ReadOptions | None = None, **mapping: str
) -> Imported:
    options = options or ReadOptions()
    mapping = {**options.mapping, **mapping}
    return Imported(path, replace(options, mapping=mapping, format_name=format_name))


def read_content(folder: Path, content: bytes, **mapping: str) -> Imported:
    """What the importer that recognizes this content reads from it."""
    path = folder / "results"
    path.write_bytes(content)
    return import_path(path, None, None, **mapping)


def texts(trace: Trace) -> tuple[str | None, str | None, str | None]:
    """Input, expected output and output."""
    return trace.input, trace.expected_output, trace.output


def recorded(name: str) -> Path:
    """A recorded result file; the test is skipped where the recordings are not."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"the recording {name} is not here")
    return path


def write_json_lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def read_rows(tmp_path: Path, *rows: Any, options: ReadOptions | None = None) -> Imported:
    return import_path(write_json_lines(tmp_path / "a.jsonl", *rows), options=options)


def read_csv(tmp_path: Path, text: str, options: ReadOptions | None = None) -> Imported:
    return import_path(write_file(tmp_path / "a.csv", text), options=options)


def pairs(traces: list[Trace]) -> list[tuple[str, str | None, str | None]]:
    return [(trace.item_id, trace.output, trace.expected_output) for trace in traces]


def zstandard_zip(members: dict[str, bytes]) -> bytes:
    """A ZIP archive whose members are compressed with Zstandard, in frames of 1,000 bytes."""
    zstandard = pytest.importorskip("zstandard")
    compressor = zstandard.ZstdCompressor()
    packed = {
        name: b"".join(
            # Several frames in one member, as streaming writers produce: a
            # reader may not stop after the first.
            compressor.compress(content[start : start + 1_000])
            for start in range(0, len(content), 1_000)
        )
        for name, content in members.items()
    }
    archive_file = io.BytesIO()
    with zipfile.ZipFile(archive_file, "w", zipfile.ZIP_STORED) as archive:
        for name, content in packed.items():
            archive.writestr(name, content)
    # The standard library cannot write this method: the entries are stored, and renamed here.
    raw = bytearray(archive_file.getvalue())
    for signature, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        start = 0
        while (start := raw.find(signature, start)) >= 0:
            # 93 is the compression method Zstandard of the ZIP specification (APPNOTE 4.4.5).
            raw[start + offset : start + offset + 2] = (93).to_bytes(2, "little")
            start += 4
    return bytes(raw)
