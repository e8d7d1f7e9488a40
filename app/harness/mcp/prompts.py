"""Prompts of several parts."""

from typing import Final

DELIMITER: Final = "---PROMPT---"


def split_prompts(text: str) -> tuple[str, ...]:
    """The parts between the delimiters, without the space around them; empty ones are dropped."""
    return tuple(part.strip() for part in text.split(DELIMITER) if part.strip())
