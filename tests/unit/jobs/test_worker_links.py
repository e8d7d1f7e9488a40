"""The log of a separate worker says where the links in its messages lead."""

import pytest

from mosaico.core.settings import Settings
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
