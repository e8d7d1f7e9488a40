"""Parquet tables, read with pyarrow batch by batch; needs the extra `parquet`."""

from collections.abc import Iterator, Mapping

from mosaico.traces.files.import_file import Container, ImportFile, TableRow
from mosaico.traces.files.importer_registry import IMPORTERS, ImportedTraces, Importer
from mosaico.traces.files.table_traces import read_table

BATCH_ROWS = 1_000
BUFFER_BYTES = 1024**2


def read_parquet(file: ImportFile, mapping: Mapping[str, str]) -> ImportedTraces:
    """The traces of a Parquet table. Raises: `InvalidImport` without pyarrow."""
    return read_table(file, mapping, _rows(file))


def _rows(file: ImportFile) -> Iterator[TableRow]:
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


IMPORTERS.register(
    "parquet",
    Importer(
        summary="Parquet table",
        recognizes=lambda file: file.container is Container.PARQUET,
        read=read_parquet,
        is_table=True,
    ),
)
