"""Third-party libraries whose results are compared with ours.

Their import takes seconds, and each test process collects every test: they are imported on first
use, and the tests that use them run in one process.
"""

import importlib
from typing import Any, Final

import pytest

IN_ONE_PROCESS: Final = pytest.mark.xdist_group("references")


class Reference:
    """A module that is loaded when something of it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # pytest asks whatever it collects for such names
            raise AttributeError(attribute)
        return getattr(importlib.import_module(self._name), attribute)
