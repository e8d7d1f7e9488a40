"""Ends a long statement of a job whose work is no longer needed."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, cast

from sqlalchemy.orm import Session

from mosaico.core.engine import Driver

CHECK_INTERVAL_S: Final = 0.25
CANCEL_TIMEOUT_S: Final = 5.0


@contextmanager
def interrupted_by(checkpoint: Callable[[], None], session: Session) -> Iterator[None]:
    """Call `checkpoint` several times a second while the block waits for a statement of the session. When
    it raises, the statement is cancelled, and the block raises the same.
    """
    driver = cast("Driver", session.connection().connection.driver_connection)
    errors: list[Exception] = []
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(CHECK_INTERVAL_S):
            try:
                checkpoint()
            except Exception as error:  # noqa: BLE001 - raised by the block
                errors.append(error)
                driver.cancel_safe(timeout=CANCEL_TIMEOUT_S)
                return

    watcher = threading.Thread(target=watch, name="interruption", daemon=True)
    watcher.start()
    try:
        yield
    except Exception:
        # The error of the cancelled statement has a reason of its own.
        if not errors:
            raise
    finally:
        is_over.set()
        # A request to cancel must not arrive in the next statement of the connection.
        watcher.join()
    if errors:
        raise errors[0]
