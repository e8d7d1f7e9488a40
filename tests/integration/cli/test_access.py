"""How commands find the service and the API key, and their errors without them."""

from pathlib import Path

import pytest

from mosaico.access.service import ADMIN_KEY_FILE
from mosaico.core.console.service import complete_ids
from mosaico.core.console.service_address import ADMIN_KEY_FILE as FILE_OF_COMMANDS
from mosaico.core.console.service_address import find_service
from tests.integration.cli.conftest import Shell
from tests.support.http import serving
from tests.support.service import Service


def test_unreachable_service__exits_69_and_names_the_command_that_starts_it() -> None:
    shell = Shell(variables={"MOSAICO_URL": "http://127.0.0.1:1"})
    refused = shell("agents", "list")
    assert (refused.exit_code, refused.stdout) == (69, "")
    error, cause, hint = refused.stderr.splitlines()
    assert error == "error: the service at http://127.0.0.1:1 does not respond"
    assert "refused" in cause
    assert "hint: start it with `mosaico serve`" in hint


def test_missing_resource__exits_66_and_names_the_list_command(mosaico: Shell) -> None:
    refused = mosaico("runs", "start", "no-benchmark", "no-agent")
    assert (refused.exit_code, refused.stdout) == (66, "")
    assert "hint: `mosaico benchmarks list`" in refused.stderr
    assert mosaico("runs", "show", "../agents").exit_code == 66  # an id is one step of a path


def test_wrong_key__exits_77_and_names_the_source_of_the_key(mosaico: Shell) -> None:
    wrong = Shell(variables={**mosaico.variables, "MOSAICO_API_KEY": "wrong-key"})
    refused = wrong("agents", "list")
    assert (refused.exit_code, refused.stdout) == (77, "")
    assert "source of the key sent: MOSAICO_API_KEY" in refused.stderr
    assert "wrong-key" not in refused.output


def test_admin_key_file__is_used_for_a_local_service(mosaico: Shell, tmp_path: Path) -> None:
    key, url = mosaico.variables["MOSAICO_API_KEY"], mosaico.variables["MOSAICO_URL"]
    assert FILE_OF_COMMANDS == ADMIN_KEY_FILE
    folder = tmp_path / "data"
    folder.mkdir()
    here = Shell(variables={"MOSAICO_URL": url, "MOSAICO_DATA_DIR": str(folder)})
    refused = here("agents", "list")
    assert refused.exit_code == 77
    assert f"none, because {folder / ADMIN_KEY_FILE} does not exist" in refused.stderr

    file = folder / ADMIN_KEY_FILE
    file.write_text(f"{key}\n")
    file.chmod(0o644)
    unsafe = here("agents", "list")
    assert unsafe.exit_code == 78
    assert f"chmod 600 {file}" in unsafe.stderr
    file.chmod(0o600)
    here.ok("agents", "list")


def test_settings__key_and_port_are_used_for_a_local_service(mosaico: Shell) -> None:
    key, url = mosaico.variables["MOSAICO_API_KEY"], mosaico.variables["MOSAICO_URL"]
    port = url.rpartition(":")[2]
    Shell(variables={"MOSAICO_PORT": port, "MOSAICO_ADMIN_KEY": key}).ok("agents", "list")


# The second begins as the address of this machine does.
@pytest.mark.parametrize("url", ["http://mosaico.example", "https://127.0.0.1.example:8080"])
def test_admin_key__is_never_sent_to_another_machine(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOSAICO_URL", url)
    monkeypatch.setenv("MOSAICO_ADMIN_KEY", "an-admin-key-that-stays-on-this-machine")
    assert find_service().key is None


@pytest.mark.parametrize(
    "url", ["ftp://h", "127.0.0.1:8080", "http://", "http://u:p@h", "http://h:port"]
)
def test_invalid_url__exits_78(url: str) -> None:
    refused = Shell(variables={"MOSAICO_URL": url, "MOSAICO_API_KEY": "k"})("agents", "list")
    assert (refused.exit_code, refused.stdout) == (78, "")
    assert "hint: write it as http://127.0.0.1:8080" in refused.stderr


def test_other_program_at_the_url__exits_69() -> None:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    def page(request: Request) -> PlainTextResponse:
        return PlainTextResponse("welcome", status_code=int(request.path_params["status"]))

    other_program = Starlette(
        routes=[Route("/api/v1/agents/{status}", page)],
    )
    with serving(other_program) as client:
        shell = Shell(variables={"MOSAICO_URL": str(client.base_url), "MOSAICO_API_KEY": "k"})
        # Another server, a server without this page, and a proxy whose service is down.
        for status in ("200", "404", "502"):
            refused = shell("agents", "show", status)
            assert (refused.exit_code, refused.stdout) == (69, "")
            assert (
                f"responded with {status}, but the response is not from MOSAICO" in refused.stderr
            )


def test_completion__lists_ids_and_nothing_without_a_service(
    mosaico: Shell, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.create_agent("agent-one")
    service.create_agent("other")
    for name, value in mosaico.variables.items():
        monkeypatch.setenv(name, value)
    assert complete_ids("/agents")("age") == ["agent-one"]
    monkeypatch.setenv("MOSAICO_URL", "http://127.0.0.1:1")
    assert complete_ids("/agents")("age") == []
