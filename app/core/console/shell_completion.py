"""Shell completion of resource IDs: the service is queried when the user presses Tab."""

from collections.abc import Callable


def complete_ids(path: str) -> Callable[[str], list[str]]:
    """A completion function for the IDs of the list at `path` of the API."""

    def complete(incomplete: str) -> list[str]:
        # The HTTP client takes long to import, and most commands complete nothing.
        from app.core.console.api_client import list_ids

        return list_ids(path, incomplete)

    return complete
