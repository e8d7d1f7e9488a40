"""URLs that people enter: what is refused before anything is stored or called."""

import re

import pytest

from mosaico.core.url_syntax import find_url_flaw


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.com/services/T/B?x=1",
        "http://localhost:8080",
        "http://10.0.0.1/",
        "http://[::1]:80/",
        "https://my_host.internal./",
        "https://xn--bcher-kva.example/",
    ],
)
def test_url__that_a_client_can_call_has_no_flaw(url: str) -> None:
    assert find_url_flaw(url) is None


@pytest.mark.parametrize(
    "url",
    [
        "https://xn--a/hook",
        "https://xn--ls8h.la/",
        "https://a..b/",
        "http://%31/",
        "http://h*/",
        "http://-a.example/",
        "http://[::1]extra/",
        "http://x[::1]/",
        "http://[v1.a]/",
        "http://999.1.1.1/",
        f"https://{'a' * 64}.example/",
    ],
)
def test_url__with_a_host_that_no_client_can_call_is_refused(url: str) -> None:
    # Some versions of Python refuse some of them already as no URL.
    assert re.search("host .*is not valid", find_url_flaw(url) or "")
