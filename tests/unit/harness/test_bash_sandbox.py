"""The sandbox: its features, its isolation from the host, and its limits."""

import asyncio
import os
from pathlib import Path

import pytest

from mosaico.harness.bash.check_registry import FileKind, UnreadableFile
from mosaico.harness.bash.sandbox import Sandbox, SandboxLimits, sandbox_prompt

SHORT_TIMEOUT = SandboxLimits(timeout_s=1.0)


def output(commands: str, **files: str) -> str:
    return Sandbox({f"/{name}": text for name, text in files.items()}).run(commands).stdout


def test_sandbox__has_user_host_and_directory_of_the_tasks() -> None:
    assert output("whoami; hostname; pwd; echo $HOME") == (
        "eval\nbashkit-eval\n/home/user\n/home/eval\n"
    )
    assert "bash" in sandbox_prompt()


def test_sandbox_prompt__describes_text_results() -> None:
    assert "JSON" not in sandbox_prompt()
    assert "Returns text: standard output, then standard error after 'STDERR: '" in sandbox_prompt()


def test_sandbox__state_persists_between_calls() -> None:
    sandbox = Sandbox({"/data/a": "seed\n"})
    sandbox.run("cd /data; x=1; f() { echo called; }; echo more >> a")
    assert sandbox.run("pwd; echo $x; f; cat a").stdout == "/data\n1\ncalled\nseed\nmore\n"


def test_sandbox__exit_ends_one_call() -> None:
    sandbox = Sandbox({})
    assert sandbox.run("exit 7").exit_code == 7
    assert sandbox.run("echo on").stdout == "on\n"


def test_sandbox__sandboxes_are_isolated() -> None:
    Sandbox({}).run("echo x > /tmp/here")
    assert Sandbox({}).kind("/tmp/here") is None


def test_sandbox__kind_of_path() -> None:
    sandbox = Sandbox({"/d/f": "x"})
    sandbox.run("ln -s /d/f /link; ln -s /loop /loop; printf '\\xff' > /raw")
    assert sandbox.kind("/d/f") is FileKind.FILE
    assert sandbox.kind("/d") is FileKind.DIRECTORY
    assert sandbox.kind("/link") is FileKind.FILE
    assert sandbox.kind("/loop") is None
    assert sandbox.kind("/nope") is None
    assert sandbox.read("/raw") == b"\xff"
    for path in ("/nope", "/d", "", "relative", "/loop"):
        with pytest.raises(UnreadableFile):
            sandbox.read(path)


def test_sandbox__host_files_are_inaccessible(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    sandbox = Sandbox({})
    tries = (
        f"cat {secret}",
        f"cat {'../' * 12}{str(secret)[1:]}",
        f"ln -s {secret} /l; cat /l",
        f"source {secret}; . {secret}",
        "cat /proc/self/environ /proc/1/environ /etc/shadow",
        f"find / -path '*{tmp_path.name}*'",
        f"ls {Path(__file__).parent}",
    )
    for attempt in tries:
        assert "hunter2" not in (done := sandbox.run(attempt)).stdout + done.stderr
        assert done.stdout == ""
    sandbox.run(f"mkdir -p {tmp_path}; echo broken > {secret}")
    assert secret.read_text() == "hunter2"


def test_sandbox__host_variables_are_invisible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOSAICO_SECRET_WORD", "hunter2")
    assert "hunter2" not in output("env; export -p; set; echo $MOSAICO_SECRET_WORD; printenv")
    assert os.environ["PATH"] not in output("echo $PATH")


@pytest.mark.parametrize(
    "attempt",
    [
        "curl -s http://127.0.0.1:{port}/",
        "wget -O - http://127.0.0.1:{port}/",
        "exec 3<>/dev/tcp/127.0.0.1/{port}; cat <&3",
        "nc 127.0.0.1 {port}",
        "python3 -c 'import socket'",
        "ssh 127.0.0.1",
    ],
)
def test_sandbox__network_is_unreachable(attempt: str) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        # The call has ended before `accept`: a connection would be in the queue already.
        server.settimeout(0.05)
        done = Sandbox({}).run(attempt.format(port=server.getsockname()[1]))
        assert done.exit_code != 0 or not done.stdout
        with pytest.raises(TimeoutError):
            server.accept()


@pytest.mark.parametrize(
    "commands",
    [
        "while :; do :; done",
        "sleep 600",
        ":(){ :|:& };:; wait",
        "f() { f; }; f",
        "yes",
        "for i in {1..1000000000}; do :; done",
        "awk 'BEGIN { while (1) x = x \"aaaa\" }'",
        "jq -n 'def f: f; f'",
    ],
)
def test_sandbox__endless_commands_are_stopped(commands: str) -> None:
    sandbox = Sandbox({}, SHORT_TIMEOUT)
    done = sandbox.run(commands)
    # `yes` prints until the limit: without one of the output it
    # would fill the memory of the worker.
    assert len(done.stdout) <= 2 * 1024 * 1024
    assert sandbox.run("echo on").stdout == "on\n"


def test_sandbox__memory_is_limited() -> None:
    done = Sandbox({}).run("x=a; while :; do x=$x$x; done")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "memory limit exceeded" in done.stderr


@pytest.mark.parametrize("commands", ["sleep 600", "while :; do :; done"])
def test_sandbox__call_timeout_keeps_sandbox_usable(commands: str) -> None:
    async def run() -> None:
        # The default of 10,000 iterations would end the loop before the timeout does.
        sandbox = Sandbox({}, SandboxLimits(max_commands=10**9, max_loop_iterations=10**9))
        await sandbox.execute("x=kept; echo y > /tmp/y")
        done = await sandbox.execute(commands, timeout_ms=50)
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr == "resource limit exceeded: execution timeout (0.05s)"
        assert (await sandbox.execute("echo $x; cat /tmp/y")).stdout == "kept\ny\n"

    asyncio.run(run())


def test_sandbox__cancelled_call_stops() -> None:
    async def run() -> None:
        sandbox = Sandbox({})
        call = asyncio.create_task(sandbox.execute("sleep 600; echo late > /tmp/late"))
        # The call is in `sleep` by now; cancelled earlier, it would not have started.
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert sandbox.kind("/tmp/late") is None

    asyncio.run(run())
