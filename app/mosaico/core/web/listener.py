"""The socket on which the API listens; `mosaico serve` opens it once for all API processes."""

import os
import socket
from typing import Final

LISTENER_FD: Final = "MOSAICO_LISTENER_FD"


def bind_listener(host: str, port: int) -> socket.socket:
    """A socket that holds the port. Nobody can connect until a process listens on it.

    Raises: `OSError` when another program uses the port.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener


def inherited_listener() -> socket.socket | None:
    """The socket that the parent process has handed over; None for a process of its own."""
    number = os.environ.get(LISTENER_FD)
    return socket.socket(fileno=int(number)) if number else None
