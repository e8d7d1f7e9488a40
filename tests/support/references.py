"""The libraries that our numbers are compared with.

They take seconds of a processor to load, and every process of a test run collects every test:
they are loaded where a test asks for them, and those tests run in one process.
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
