"""Masks secrets in texts that people read or that are stored."""

import re
from collections.abc import Callable, Iterable
from typing import Final

MASK: Final = "***"
# A shorter secret is masked only as a word of its own: it would also be a part of ordinary words.
SHORTEST_SECRET: Final = 4

_SECRET_NAME = re.compile(
    r"passw|secret|token|authorization|cookie|credential|api[-_ ]?key|master[-_ ]?key"
    r"|private[-_ ]?key|signature",
    re.IGNORECASE,
)
# Names that look like secrets but are counts, flags or ids: input_tokens, secret_set, token_id.
_PUBLIC_NAME = re.compile(r"_?tokens$|[-_]set$|[-_]id$|^tokeni[sz]e", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Return whether the value of a field or variable of this name is always masked."""
    return bool(_SECRET_NAME.search(name)) and not _PUBLIC_NAME.search(name)


def secret_masker(secrets: Iterable[str]) -> Callable[[str], str]:
    """A function that replaces every secret in a text, whole or as one of its words.

    The words matter for header values such as `Bearer KEY`.
    """
    secrets = list(secrets)
    parts = {part for secret in secrets for part in (secret, *secret.split())}
    # Longest first: a shorter secret may be a part of a longer one.
    masked = sorted((part for part in parts if len(part) >= SHORTEST_SECRET), key=len, reverse=True)
    # Only whole secrets: the first word of `A b c` alone would mask an ordinary word.
    short = [re.escape(secret) for secret in secrets if 0 < len(secret) < SHORTEST_SECRET]
    alone = re.compile(rf"(?<!\w)(?:{'|'.join(short)})(?!\w)") if short else None

    def mask(text: str) -> str:
        for part in masked:
            text = text.replace(part, MASK)
        return text if alone is None else alone.sub(MASK, text)

    return mask
