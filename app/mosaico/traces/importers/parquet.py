"""Parquet tables, read with pyarrow batch by batch; needs the extra `parquet`."""

from collections.abc import Iterator

from mosaico.traces.files.import_file import ROW_READERS, Container, ImportFile, TableRow
from mosaico.traces.files.importer_registry import IMPORTERS, Importer
from mosaico.traces.files.table_traces import read_table

BATCH_ROWS = 1_000
BUFFER_BYTES = 1024**2


def iter_parquet_rows(file: ImportFile) -> Iterator[TableRow]:
    """The rows of a Parquet file. Raises: `InvalidImport` without pyarrow."""
    # pyarrow is an extra of 55 MB, which few need.
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        file.reject("Parquet files need pyarrow; install it: pip install pyarrow")
    try:
        # Small buffers: by default a whole row group is in memory twice.
        table = pq.ParquetFile(file.open(), pre_buffer=False, buffer_size=BUFFER_BYTES)
        for index in range(table.num_row_groups):
            size = table.metadata.row_group(index).total_byte_size
            file.require_unpacked(size, f"row group {index + 1}")
        number = 0
        for batch in table.iter_batches(batch_size=BATCH_ROWS):
            for cells in batch.to_pylist():
                number += 1
                yield TableRow(f"row {number}", cells)
    except (pa.ArrowException, OSError) as error:
        file.reject(f"not a valid Parquet file: {error}")


ROW_READERS[Container.PARQUET] = iter_parquet_rows
IMPORTERS.register(
    "parquet",
    Importer(
        summary="Parquet table",
        recognizes=lambda file: file.container is Container.PARQUET,
        read=read_table,
        is_table=True,
    ),
)
