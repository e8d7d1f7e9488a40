"""Common parts of the sync and the async transport: TLS trust, connection and response limits."""

import ssl
from functools import cache
from importlib.metadata import version
from typing import Final

import httpx

from mosaico.core.errors import Invalid

USER_AGENT: Final = f"mosaico/{version('mosaico')}"
MAX_CONNECTIONS: Final = 20
KEEPALIVE_S: Final = 5.0
_SHOWN_CHARS: Final = 40


class OversizedResponse(Invalid):
    """The response of the server exceeds the size limit; request less at once."""


class SizeCounter:
    """Counts the bytes of a response body against its limit."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._size = 0

    def add(self, chunk: bytes) -> bytes:
        """Count a chunk and return it. Raises `OversizedResponse` beyond the limit."""
        self._size += len(chunk)
        if self._size > self._max_bytes:
            raise OversizedResponse(
                f"The server's response is larger than {self._max_bytes} bytes; request less at"
                " once."
            )
        return chunk


def unrequested_encoding_message(encoding: str) -> str:
    return f"the response has the content encoding {encoding[:_SHOWN_CHARS]!r}, which was not requested"


@cache
def tls_context() -> ssl.SSLContext:
    """The certificate authorities that all clients trust; `SSL_CERT_FILE` names others.

    Shared by the process: loading them takes longer than most requests.
    """
    return httpx.create_ssl_context()


def is_untrusted_certificate(error: BaseException) -> bool:
    """Return whether a request failed because the server's certificate is not trusted.

    Such a failure is final: a retry does not help.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
