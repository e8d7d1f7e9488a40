"""Ids that the shell completes: asked of the service when somebody presses Tab."""

from collections.abc import Callable


def ids_at(path: str) -> Callable[[str], list[str]]:
    """How the shell completes the ids of a list of the API."""

    def complete(incomplete: str) -> list[str]:
        from app.core.console.api_client import known_ids

        return known_ids(path, incomplete)

    return complete
