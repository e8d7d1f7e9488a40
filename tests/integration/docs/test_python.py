"""docs/python.md: the examples run, one after the other."""

from typing import Any

import pytest

from tests.integration.docs.test_examples import blocks
from tests.support.plugins import isolate_registries
from tests.support.service import Service, working


def test_python_page__examples_run(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate_registries(monkeypatch)
    monkeypatch.setenv("MOSAICO_URL", str(service.client.base_url))
    key = service.client.headers["Authorization"].removeprefix("Bearer ")
    monkeypatch.setenv("MOSAICO_API_KEY", key)
    names: dict[str, Any] = {}
    with working(service):
        for block in blocks("docs/python.md", "python"):
            exec(compile(block, "docs/python.md", "exec"), names)
    assert names["report"].exit_code == 1
    assert names["run"].id
