"""Refuses this Python process every other host; loaded at its start when its folder is on PYTHONPATH.

The hosts that were asked for are written to the file `MOSAICO_TEST_HOSTS`.
"""

import os
import socket
import sys
from pathlib import Path
from typing import Any

LOCAL = ("127.", "::1", "localhost", "0.0.0.0")


def refuse_other_hosts(event: str, arguments: tuple[Any, ...]) -> None:
    """Raise `OSError` for a connection to another host, or for the question of its address."""
    if event == "socket.connect":
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else ""
    elif event == "socket.getaddrinfo":
        # A lookup counts too: without a network it fails before any connection is tried.
        host = arguments[0] or ""
    else:
        return
    host = host.decode() if isinstance(host, bytes) else host
    if not host or host.startswith(LOCAL) or host == socket.gethostname():
        return
    # Written down, because the caller may catch the error: telemetry fails silently.
    with Path(os.environ["MOSAICO_TEST_HOSTS"]).open("a") as file:
        file.write(f"{host}\n")
    raise OSError(f"the network is blocked: {host}")


if "MOSAICO_TEST_HOSTS" in os.environ:
    # An audit hook sees the calls of C extensions too, which a replaced `socket` would miss.
    sys.addaudithook(refuse_other_hosts)
