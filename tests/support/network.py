"""A network between a process and a server, which a test can cut."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Network:
    """Forwards connections to a server. While it is cut nothing arrives and no connection ends."""

    server: tuple[str, int]
    listener: socket.socket
    _flows: threading.Event = field(default_factory=threading.Event)
    _connections: list[socket.socket] = field(default_factory=list)

    @property
    def port(self) -> int:
        port: int = self.listener.getsockname()[1]
        return port

    def cut(self) -> None:
        self._flows.clear()

    def mend(self) -> None:
        """Deliver what waits; from now on everything arrives again."""
        self._flows.set()

    def accept_all(self) -> None:
        """Serve connections until the listener is closed."""
        while True:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection(self.server)
            except OSError:
                return
            self._connections += [client, server]
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=(source, target), daemon=True).start()

    def close(self) -> None:
        self.mend()
        # Wakes the thread in `accept`.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self._connections:
            connection.close()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        try:
            # It goes on reading while the network is cut: the sender
            # notices nothing, as on a real one.
            while block := source.recv(65_536):
                self._flows.wait()
                target.sendall(block)
            self._flows.wait()
            target.shutdown(socket.SHUT_WR)
        except OSError:
            target.close()


@contextmanager
def network_to(host: str, port: int, *, own_host: str = "127.0.0.1") -> Iterator[Network]:
    """A network to this server, as a port of this machine."""
    network = Network((host, port), socket.create_server((own_host, 0)))
    network.mend()
    accepting = threading.Thread(target=network.accept_all)
    accepting.start()
    try:
        yield network
    finally:
        network.close()
        accepting.join()
