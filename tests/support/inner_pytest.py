"""A pytest run inside this process, which has loaded the statistics: half the cost of a process of its own."""

import gc
import sys

import pytest

PLUGIN = ("-p", "no:mosaico", "-p", "mosaico.sdk.pytest_plugin")


def run_inner_pytest(*options: str) -> int:
    """Run the tests of the current folder with the plugin `mosaico`; returns the exit code."""
    # At its end pytest searches for garbage five times, through all that the outer run has made so far: up to ten
    # seconds.
    gc.freeze()
    sys.modules.pop("test_bot", None)  # the next run reads the file of that name again
    with pytest.MonkeyPatch.context() as patch:
        # The options of the outer run: its conftest.py defines some, such as `--busy-loops`.
        patch.delenv("PYTEST_ADDOPTS", raising=False)
        # The plugins of the other tools here take longer than the tests.
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        return int(pytest.main(["--rootdir", ".", "--import-mode=importlib", *PLUGIN, *options]))
