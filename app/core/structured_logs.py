"""structlog without rich, which it would import for tracebacks in colour.

Our tracebacks are plain. rich and pygments take 0.1 s of CPU and 4 MiB in each process that only logs.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def _without_rich() -> Iterator[None]:
    """Let `import rich` fail, as if it was not installed."""
    # None makes an import fail: Python language reference, § 5.3.1 The module cache.
    loaded = sys.modules.get("rich")
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["rich"]
        if loaded is not None:
            sys.modules["rich"] = loaded


with _without_rich():
    import structlog

__all__ = ["structlog"]
