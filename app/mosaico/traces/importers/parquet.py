"""Parquet tables, read with pyarrow batch by batch; needs the extra `parquet`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from mosaico.core.extras import describe_missing
from mosaico.traces.files.import_file import ROW_READERS, Container, ImportFile, TableRow
from mosaico.traces.files.importer_registry import IMPORTERS, Importer
from mosaico.traces.files.table_traces import read_table

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

BATCH_ROWS: Final = 1_000
BUFFER_BYTES: Final = 1024**2
# Texts and bytes: a value that repeats is stored once, and may unpack to gigabytes.
REPEATABLE: Final = "BYTE_ARRAY"


def iter_parquet_rows(file: ImportFile) -> Iterator[TableRow]:
    """The rows of a Parquet file. Raises: `InvalidImport` without pyarrow."""
    # pyarrow is a large extra, which few need.
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        file.reject(describe_missing("parquet", "Parquet files"))
    try:
        metadata = pq.read_metadata(file.open())
        _require_limits(file, metadata)
        # Small buffers: by default a whole row group is in memory twice.
        table = pq.ParquetFile(
            file.open(),
            pre_buffer=False,
            buffer_size=BUFFER_BYTES,
            # A value that repeats stays one until its rows are read.
            read_dictionary=_texts_of(metadata),
        )
        number = 0
        for batch in table.iter_batches(batch_size=BATCH_ROWS):
            # At worst each row has a copy of every value that repeats.
            step = max(1, min(BATCH_ROWS, file.options.limits.part_bytes // (batch.nbytes or 1)))
            for first in range(0, batch.num_rows, step):
                for cells in batch.slice(first, step).to_pylist():
                    number += 1
                    yield TableRow(f"row {number}", cells)
    except MemoryError:  # pyarrow has one of its own, which is also an error of Arrow
        raise
    except (pa.ArrowException, OSError) as error:
        file.reject(f"not a valid Parquet file: {error}")


ROW_READERS[Container.PARQUET] = iter_parquet_rows


def _require_limits(file: ImportFile, metadata: "FileMetaData") -> None:
    """Raise `InvalidImport` for a table that unpacks to more than a limit, as its directory says."""
    file.require_columns(metadata.num_columns)
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    for number, group in enumerate(groups, start=1):
        file.require_unpacked(group.total_byte_size, f"row group {number}")
    file.require_all_unpacked(sum(group.total_byte_size for group in groups))


def _texts_of(metadata: "FileMetaData") -> list[str]:
    columns = map(metadata.schema.column, range(metadata.num_columns))
    return [column.path for column in columns if column.physical_type == REPEATABLE]


IMPORTERS.register(
    "parquet",
    Importer(
        summary="Parquet table",
        recognizes=lambda file: file.container is Container.PARQUET,
        read=read_table,
        is_table=True,
    ),
)
