"""The sizes of the batches in which lists read their rows."""

import pytest

from mosaico.core import keyset
from mosaico.core.keyset import BatchSizes
from mosaico.run_store import run_list


def set_batch_sizes(monkeypatch: pytest.MonkeyPatch, sizes: BatchSizes) -> None:
    """Let every search of a list, except those of traces, read its rows in batches of these sizes."""
    # `run_list` imports the constant by name: its copy has to be replaced as well.
    for module, name in (
        (keyset, "SEARCHED_ROWS"),
        (keyset, "PREFIX_ROWS"),
        (run_list, "SEARCHED_ROWS"),
    ):
        monkeypatch.setattr(module, name, sizes)
