"""The log of a separate worker says where the links in its messages lead."""

import pytest
from typer.testing import CliRunner

from mosaico import serve, worker
from mosaico.cli import cli
from mosaico.core.settings import Settings
from mosaico.serve import SUPERVISED
from mosaico.worker import warn_of_links


@pytest.mark.parametrize(
    ("settings", "queues", "is_told"),
    [
        (Settings(port=8123), None, True),
        (Settings(port=8123), ["score", "notifications"], True),
        (Settings(port=8123), ["score"], False),
        (Settings(port=8123, public_url="https://mosaico.example"), None, False),
    ],
)
def test_worker__tells_where_links_lead_unless_somebody_said_it(
    settings: Settings,
    queues: list[str] | None,
    is_told: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    warn_of_links(settings, queues)
    assert (":8123" in caplog.text and "MOSAICO_PUBLIC_URL" in caplog.text) == is_told


@pytest.mark.parametrize("is_alone", [True, False])
def test_worker__that_serve_did_not_start_is_told(
    is_alone: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("MOSAICO_PUBLIC_URL", raising=False)
    monkeypatch.delenv(SUPERVISED, raising=False)
    if not is_alone:
        monkeypatch.setenv(SUPERVISED, "1")
    # Nothing of this process is changed, and the worker ends before it opens the database.
    for module, name in ((serve, "end_with_parent"), (worker, "limit_arenas")):
        monkeypatch.setattr(module, name, lambda: None)
    monkeypatch.setattr(worker, "set_up_logs", lambda _settings: None)
    monkeypatch.setattr(worker, "load_plugins", lambda: 1 / 0)
    assert isinstance(CliRunner().invoke(cli, ["worker"]).exception, ZeroDivisionError)
    assert ("MOSAICO_PUBLIC_URL" in caplog.text) == is_alone
