"""Masks secrets in texts that people read or that are stored."""

from collections.abc import Callable, Iterable
from typing import Final

MASK: Final = "***"
# A shorter text would also mask parts of ordinary words.
SHORTEST_SECRET: Final = 4


def secret_masker(secrets: Iterable[str]) -> Callable[[str], str]:
    """A function that replaces every secret in a text, whole or as one of its words.

    The words matter for header values such as `Bearer KEY`.
    """
    parts = {part for secret in secrets for part in (secret, *secret.split())}
    # Longest first: a shorter secret may be a part of a longer one.
    masked = sorted((part for part in parts if len(part) >= SHORTEST_SECRET), key=len, reverse=True)

    def mask(text: str) -> str:
        for part in masked:
            text = text.replace(part, MASK)
        return text

    return mask
