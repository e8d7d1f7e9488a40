"""Ctrl-C during `mosaico runs watch`."""

import io
import sys
from typing import Any, cast

import pytest
import typer

from mosaico.core.console.api_client import ApiClient
from mosaico.runs.cli.progress import detach


class DetachService:
    """Remembers what it was asked to do."""

    def __init__(self) -> None:
        self.posted: list[str] = []

    def post(self, path: str) -> dict[str, Any]:
        self.posted.append(path)
        return {}


class ImpatientTerminal(io.StringIO):
    """A terminal whose user presses Ctrl-C as soon as the offer can be read."""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        written = super().write(text)
        # If the offer were printed before the `try`, this would end the command and cancel nothing.
        if "once more" in text:
            raise KeyboardInterrupt
        return written


def test_detach__second_ctrl_c_cancels_as_soon_as_the_offer_is_printed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service = DetachService()
    monkeypatch.setattr(sys, "stderr", ImpatientTerminal())
    with pytest.raises(typer.Exit) as caught:
        detach(cast("ApiClient", service), "run-1")
    assert caught.value.exit_code == 3
    assert service.posted == ["/benchmark-runs/run-1/cancel"]


def test_detach__without_a_terminal_exits_without_an_offer(monkeypatch: pytest.MonkeyPatch) -> None:
    service = DetachService()
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with pytest.raises(typer.Exit) as caught:
        detach(cast("ApiClient", service), "run-1")
    assert (caught.value.exit_code, service.posted) == (130, [])
