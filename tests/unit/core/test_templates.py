"""The environment of the pages."""

import asyncio
import threading

import pytest
import uvicorn

from mosaico import main
from mosaico.core.web.pages import compile_templates, environment


def test_compile_templates__compiles_each_template() -> None:
    environment.cache_clear()
    compile_templates()
    templates = environment()
    assert templates.cache is not None
    assert len(templates.cache) == len(templates.list_templates())


def test_server__compiles_templates_once_it_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, done = [], threading.Event()

    async def start(_server: uvicorn.Server, _sockets: object = None) -> None:
        calls.append("started")

    def compile_all() -> None:
        calls.append("compiled")
        done.set()

    monkeypatch.setattr(uvicorn.Server, "startup", start)
    monkeypatch.setattr(main, "compile_templates", compile_all)
    asyncio.run(main.Server(uvicorn.Config(app="")).startup())
    assert done.wait(300)
    assert calls == ["started", "compiled"]
