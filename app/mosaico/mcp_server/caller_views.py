"""The service as the caller of a tool sees it: with the key of this process, or with the key of the request."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from mosaico.core.console.service_address import find_pages_url
from mosaico.core.errors import Unauthorized
from mosaico.mcp_server.lookup import ServiceView, ToolRefusal
from mosaico.sdk.client import Client

_SCHEME: Final = "bearer"


class RefusedKey(ToolRefusal):
    """The service does not accept the API key of the request; send a valid one as `Authorization: Bearer KEY`."""

    status = 401
    exit_code = 77


@contextmanager
def view_of_process(url: str, _: Mapping[str, str]) -> Iterator[ServiceView]:
    """The service with the key of this process, like every command."""
    with Client() as client:
        yield ServiceView(client=client, pages_url=find_pages_url(url))


@contextmanager
def view_of_request(url: str, headers: Mapping[str, str]) -> Iterator[ServiceView]:
    """The service with the key that the request brings; the key of this process is never used for others.

    Raises: `RefusedKey`.
    """
    key = key_of_request(headers)
    if key is None:
        raise RefusedKey
    with Client(url, key) as client:
        try:
            yield ServiceView(client=client, pages_url=find_pages_url(url))
        except Unauthorized:
            raise RefusedKey from None


def key_of_request(headers: Mapping[str, str]) -> str | None:
    """The API key in the header `Authorization`; None without one."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() or None if scheme.lower() == _SCHEME else None
