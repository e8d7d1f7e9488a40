"""`mosaico serve`: the whole service as one process tree.

The parent process supervises the embedded database and its child processes: the API, a worker and a
scheduler. It restarts a child that ends. When the parent ends, even by SIGKILL, its children
end too: each child watches its end of a pipe from the parent.
"""

import contextlib
import ipaddress
import logging
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field

import httpx

from mosaico.access.service import FirstKey, ensure_first_admin_key
from mosaico.access.sessions import create_login_link
from mosaico.core.encryption import Secret
from mosaico.core.errors import AppError, Unavailable
from mosaico.core.migrations import current_revision, pending_revisions, upgrade
from mosaico.core.network_policy import ALLOW_SETTING, PRIVATE_NETWORKS
from mosaico.core.settings import Settings, base_url
from mosaico.core.web.listener import LISTENER_FD, bind_listener
from mosaico.startup import (
    direct_database_url,
    master_key,
    opened_resources,
    owned_database,
    set_up_logs,
    stop_on_signals,
)

log = logging.getLogger(__name__)

# Set for the children, which end with their parent.
SUPERVISED = "MOSAICO_SUPERVISED"
# A start takes seconds, on a machine with a load of 20 a few minutes.
READY_S = 600.0
# Above the 10 s in which each child stops by itself.
STOP_S = 12.0
WATCH_S = 0.2
READY_CHECK_S = 0.05
RESTART_S = 1.0


class PortInUse(AppError):
    """The port of the API is in use; stop the other program, or set MOSAICO_PORT."""

    exit_code = 69


class DidNotStart(Unavailable):
    """The service did not become ready; see its messages above."""


def serve_all(settings: Settings, print_line: Callable[[str], None]) -> None:
    """Run all processes until SIGTERM or SIGINT; `print_line` receives the messages to the user."""
    set_up_logs(settings)
    stopping, database_moved = stop_on_signals(), threading.Event()
    master_key(settings)
    with (
        closing(_bind_port(settings)) as listener,
        owned_database(settings, on_move=database_moved.set) as url,
    ):
        # Once, before the children start, which refuse an old schema.
        upgrade_database(direct_database_url(settings) or url, print_line)
        first_key = _first_key(settings)
        environment = {
            **local_network_settings(settings),
            "MOSAICO_API_PROCESSES": str(settings.api_processes),
        }
        apis = [ServiceProcess("api", environment, listener) for _ in range(settings.api_processes)]
        worker = ServiceProcess("worker", environment)
        scheduler = ServiceProcess("scheduler", environment)
        with _running([*apis, worker], stopping) as children:
            if wait_until_ready(settings, children, stopping):
                # Not before: a third process that imports its modules would delay the API on two cores.
                scheduler.start()
                children.append(scheduler)
                for line in _start_message(settings, first_key, _login_url(settings)):
                    print_line(line)
                _supervise(children, stopping, database_moved)
    print_line("stopped")


def upgrade_database(url: str, print_line: Callable[[str], None]) -> None:
    """Upgrade the schema; of a database in use, say what is done."""
    if current_revision(url) is not None:
        for migration in pending_revisions(url):
            print_line(f"upgrading the database: {migration}; only a backup leads back")
    upgrade(url)


def _bind_port(settings: Settings) -> socket.socket:
    """The socket of all API processes: one that is restarted loses no connection that waits.

    Raises `PortInUse` before anything starts: the readiness check would reach the other program.
    """
    try:
        return bind_listener(settings.host, settings.port)
    except OSError as error:
        raise PortInUse(
            f"cannot listen on {settings.host} port {settings.port}"
            f" ({os.strerror(error.errno or 0)}); stop the program that uses the port, for example"
            " another `mosaico serve`, or set MOSAICO_PORT"
        ) from None


def local_network_settings(settings: Settings) -> Mapping[str, str]:
    """The variable that lets the children call servers on this machine and in private networks.

    Empty unless only this machine can reach the API and the operator configured nothing else: a
    remote client must not use the service to reach the private network.
    """
    is_local = settings.host == "localhost" or _is_loopback(settings.host)
    if settings.outbound_allow is not None or settings.in_production or not is_local:
        return {}
    return {ALLOW_SETTING: PRIVATE_NETWORKS}


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def end_with_parent() -> None:
    """In a child of `serve`: end when the parent process ends, even by SIGKILL."""
    if is_child_of_serve():
        threading.Thread(target=_end_at_end_of_file, name="end with parent", daemon=True).start()


def is_child_of_serve() -> bool:
    """Whether `serve` started this process, with the address of its API."""
    return bool(os.environ.get(SUPERVISED))


def _end_at_end_of_file() -> None:
    # The parent holds the other end of standard input: the kernel closes it when the parent dies.
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


@dataclass(slots=True)
class ServiceProcess:
    """A process of the tree that is restarted when it ends."""

    command: str
    environment: Mapping[str, str]
    listener: socket.socket | None = None
    process: subprocess.Popen[bytes] = field(init=False)

    def start(self) -> None:
        environment = {**os.environ, **self.environment, SUPERVISED: "1"}
        descriptors = []
        if self.listener is not None:
            descriptors = [self.listener.fileno()]
            environment[LISTENER_FD] = str(self.listener.fileno())
        self.process = subprocess.Popen(  # noqa: S603 - our own program
            # -P: the current folder may hold a module of one of our names; never import it. Of `mosaico` and not
            # `mosaico.cli`: the processes that a process of Python spawns import its main module again, unless it is
            # that of a package.
            [sys.executable, "-P", "-m", "mosaico", self.command],
            stdin=subprocess.PIPE,
            env=environment,
            pass_fds=descriptors,
            # Ctrl-C in the terminal reaches the parent only, which stops its children in order.
            start_new_session=True,
        )

    def stop(self, deadline: float) -> None:
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(max(0.1, deadline - time.monotonic()))
            return
        log.warning("%s did not stop within %g s: killing it", self.command, STOP_S)
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def _running(
    children: list[ServiceProcess], stopping: threading.Event
) -> Iterator[list[ServiceProcess]]:
    try:
        for child in children:
            child.start()
        yield children
    finally:
        stopping.set()
        deadline = time.monotonic() + STOP_S
        for child in children:
            # All at once, so that they stop in parallel.
            child.process.terminate()
        for child in children:
            child.stop(deadline)


def _supervise(
    children: list[ServiceProcess], stopping: threading.Event, database_moved: threading.Event
) -> None:
    while not stopping.wait(WATCH_S):
        if database_moved.is_set():
            database_moved.clear()
            _kill(children)
        for child in children:
            if child.process.poll() is not None:
                log.error(
                    "%s ended with exit code %s: restarting it",
                    child.command,
                    child.process.returncode,
                )
                # A child that ends at once must not be restarted in a tight loop.
                stopping.wait(RESTART_S)
                if not stopping.is_set():
                    child.start()


def _kill(children: list[ServiceProcess]) -> None:
    """End the children, so that they are started again and find the database."""
    log.error("the database has another port now: starting all processes again")
    for child in children:
        # Not in order: what is returned to the database at the end would go to the old port.
        child.process.kill()
        child.process.wait()


def wait_until_ready(
    settings: Settings, children: list[ServiceProcess], stopping: threading.Event
) -> bool:
    """Wait until the API is ready; False when the service is stopped before.

    Raises: `DidNotStart` when a child ended, or when the API is not ready after `READY_S`.
    """
    answer, deadline = "none", time.monotonic() + READY_S
    # Without the proxies of the environment, which cannot reach this machine, and without the certificate authorities,
    # which plain HTTP does not need and which take longer to load than the answer.
    url = base_url(settings)
    with httpx.Client(base_url=url, trust_env=False, verify=False) as client:  # noqa: S501
        while not stopping.wait(READY_CHECK_S):
            for child in children:
                if child.process.poll() is not None:
                    raise DidNotStart(
                        f"{child.command} ended with exit code {child.process.returncode} while starting;"
                        " see its messages above"
                    )
            try:
                response = client.get("/readyz")
            except httpx.HTTPError as error:
                answer = type(error).__name__
            else:
                if response.is_success:
                    return True
                answer = str(response.status_code)
            if time.monotonic() > deadline:
                raise DidNotStart(
                    f"the API is not ready after {READY_S:g} s (answer of /readyz: {answer});"
                    " see the messages above"
                )
    return False


def _first_key(settings: Settings) -> FirstKey:
    with opened_resources(settings, name="mosaico-serve", pool_size=1) as resources:
        configured = settings.admin_key
        return ensure_first_admin_key(
            resources.db,
            settings.data_dir,
            Secret(configured.get_secret_value()) if configured else None,
        )


def _login_url(settings: Settings) -> str:
    """A link that logs a browser in once; the plain address when no admin key can be used."""
    with (
        opened_resources(settings, name="mosaico-serve", pool_size=1) as resources,
        resources.db.begin() as session,
    ):
        token = create_login_link(session, resources.clock())
    url = settings.public_url or base_url(settings)
    return f"{url}/login?once={token}" if token else url


def _start_message(settings: Settings, first_key: FirstKey, login_url: str) -> list[str]:
    key = f"in the file {first_key.path}" if first_key.path else "as set in MOSAICO_ADMIN_KEY"
    return [
        f"MOSAICO runs at {base_url(settings)}",
        f"  open        {login_url}",
        f"  Swagger UI  {base_url(settings)}/swagger-ui.html",
        f"  admin key   {key}",
        f"  data        {settings.data_dir}",
        *_other_terminals(settings),
        "  stop        Ctrl-C",
    ]


def _other_terminals(settings: Settings) -> list[str]:
    """What finds this service and its key from another terminal; nothing where the defaults do."""
    values = {
        f"MOSAICO_{field.upper()}": str(getattr(settings, field))
        for field in ("host", "port", "data_dir")
        if getattr(settings, field) != getattr(Settings.model_construct(), field)
    }
    exports = " ".join(f"{name}={shlex.quote(value)}" for name, value in values.items())
    return [f"  commands    first, in another terminal: export {exports}"] if exports else []
