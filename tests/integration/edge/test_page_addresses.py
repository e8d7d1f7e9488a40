"""The addresses on pages are those of the reader; those in messages are of the settings."""

import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from mosaico.core.resources import Resources
from mosaico.core.settings import load_settings
from mosaico.jobs.process_pool import ProcessPool
from mosaico.startup import opened_resources
from tests.support.service import Service, running_service

OWN_URL = "http://127.0.0.1:9"


@pytest.fixture
def service_without_public_url(
    service_resources: Resources, metric_pool: ProcessPool
) -> Iterator[Service]:
    options = {**service_resources.options, "public_url": "", "own_url": OWN_URL}
    with running_service(replace(service_resources, options=options), metric_pool) as service:
        yield service


def test_pages__use_the_address_of_the_request(service_without_public_url: Service) -> None:
    client = service_without_public_url.client
    address = f"localhost:{client.base_url.port}"
    for path in ("/agents", "/triggers"):
        page = client.get(path, headers={"Accept": "text/html", "Host": address}).text
        hosts = set(re.findall(r"http://[^/ \"'<]+(?=/api/v1)", unescape(page)))
        assert hosts == {f"http://{address}"}, path
    assert service_without_public_url.resources.public_url == OWN_URL


@pytest.mark.parametrize(
    ("variables", "url"),
    [
        ({"MOSAICO_HOST": "0.0.0.0"}, "http://127.0.0.1:8097"),
        ({"MOSAICO_PUBLIC_URL": "https://m.example"}, "https://m.example"),
    ],
)
def test_opened_resources__links_of_messages_can_be_opened(
    fresh_database_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    url: str,
) -> None:
    required = {
        "DATABASE_URL": fresh_database_url,
        "MOSAICO_DATA_DIR": str(tmp_path),
        "MOSAICO_PORT": "8097",
        "MOSAICO_MASTER_KEY": b64encode(bytes(range(32))).decode(),
    }
    for name, value in {**required, **variables}.items():
        monkeypatch.setenv(name, value)
    with opened_resources(load_settings(), name="test", pool_size=1) as resources:
        assert resources.public_url == url
