"""The number of messages that an export may have: empty ones are small to send and slow to decode."""

from mosaico.core.errors import TooLarge


class ExportBudget:
    """Counts what is decoded of one export: spans, events, attributes and their values."""

    def __init__(self, limit: int) -> None:
        self._limit = self._left = limit

    def spend(self, count: int = 1) -> None:
        """Count what is decoded next. Raises: `TooLarge`."""
        self._left -= count
        if self._left < 0:
            raise TooLarge(
                f"the export has more than {self._limit:,} spans, events, attributes and values; send fewer spans at once, for"
                " example with OTEL_BSP_MAX_EXPORT_BATCH_SIZE=128, or set MOSAICO_IMPORT_SPAN_VALUES of the service higher"
            )
