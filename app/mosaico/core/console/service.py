"""The service as commands see it: a client, and the completion of IDs."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mosaico.core.console.api_client import ApiClient


def open_api(timeout_s: float | None = None) -> "AbstractContextManager[ApiClient]":
    """A client of the service at `MOSAICO_URL`, by default on this machine and with its usual timeout."""
    # The HTTP client takes long to import, and `--help` needs none.
    from mosaico.core.console import api_calls, api_client

    return api_client.open_client(timeout_s or api_calls.RESPONSE_TIMEOUT_S)


def complete_ids(path: str) -> Callable[[str], list[str]]:
    """A completion function for the IDs of the list at `path` of the API.

    The service is queried when the user presses Tab.
    """

    def complete(incomplete: str) -> list[str]:
        # As above: most commands complete nothing.
        from mosaico.core.console import api_client

        return api_client.list_ids(path, incomplete)

    return complete
