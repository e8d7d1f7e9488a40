"""Limits of a healthy machine, for `mosaico doctor` and the page of the system."""

from datetime import timedelta
from typing import Final

MIN_FREE_BYTES: Final = 1024**3
MAX_CLOCK_DIFFERENCE: Final = timedelta(seconds=2)
