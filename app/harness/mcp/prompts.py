"""Prompts of several parts."""

import re
from typing import Final

DELIMITER: Final = re.compile(r"^[ \t]*---PROMPT---[ \t\r]*$", re.MULTILINE)


def split_prompts(text: str) -> tuple[str, ...]:
    """The parts between the lines that are delimiters, without the space around them; empty ones are dropped."""
    return tuple(part.strip() for part in DELIMITER.split(text) if part.strip())
