"""The addresses of the service: for clients on its machine, in messages, and those that commands print."""

from pathlib import Path

import pytest

from mosaico.core.console.service_address import find_pages_url, find_service
from mosaico.core.environment import BadSettings
from mosaico.core.settings import Settings, base_url, load_settings


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, whose `.env` is read; no variable is set."""
    for name in ("URL", "API_KEY", "PUBLIC_URL", "HOST", "PORT"):
        monkeypatch.delenv(f"MOSAICO_{name}", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8090"),
        ("0.0.0.0", "http://127.0.0.1:8090"),
        ("::", "http://[::1]:8090"),
        ("fd00::5", "http://[fd00::5]:8090"),
        ("mosaico.internal", "http://mosaico.internal:8090"),
    ],
)
def test_base_url__is_one_that_a_client_on_this_machine_can_open(
    host: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert base_url(Settings(host=host, port=8090)) == url
    monkeypatch.setenv("MOSAICO_HOST", host)
    monkeypatch.setenv("MOSAICO_PORT", "8090")
    assert find_service().url == url


def test_pages_url__is_that_of_the_settings_file_and_of_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_pages_url("http://127.0.0.1:8080") == "http://127.0.0.1:8080"
    (folder / ".env").write_text("MOSAICO_PUBLIC_URL=https://mosaico.example\n")
    assert find_pages_url("http://127.0.0.1:8080") == "https://mosaico.example"
    monkeypatch.setenv("MOSAICO_PUBLIC_URL", "https://other.example/")
    assert find_pages_url("http://127.0.0.1:8080") == "https://other.example"


def test_pages_url__wrong_settings_of_the_service_do_not_stop_a_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MOSAICO_PORT", "none")
    assert find_pages_url("http://m.example") == "http://m.example"


@pytest.mark.parametrize("url", ["https://m.example", "https://m.example/", "http://[::1]:8080"])
def test_public_url__is_a_base_without_a_slash_at_its_end(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOSAICO_PUBLIC_URL", url)
    assert load_settings().public_url == url.rstrip("/")


@pytest.mark.parametrize(
    ("url", "flaw"),
    [
        ("https://m.example/mosaico", "has a path, a query or a fragment"),
        ("https://m.example//", "has a path, a query or a fragment"),
        ("https://m.example/?", "has a path, a query or a fragment"),
        ("https://m.example?a=1", "has a path, a query or a fragment"),
        ("https://m.example#top", "has a path, a query or a fragment"),
        ("https://m.example/#", "has a path, a query or a fragment"),
        ("https://u:secret@m.example", "contains a user or password"),
        ("ftp://m.example", "is not an http or https URL with a host"),
        ("m.example", "is not an http or https URL with a host"),
    ],
)
def test_public_url__with_more_than_a_host_is_refused(
    url: str, flaw: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOSAICO_PUBLIC_URL", url)
    with pytest.raises(BadSettings, match=r"write it as https://mosaico\.example\.org") as error:
        load_settings()
    assert "MOSAICO_PUBLIC_URL" in error.value.detail
    assert flaw in error.value.detail
    assert url not in error.value.detail
