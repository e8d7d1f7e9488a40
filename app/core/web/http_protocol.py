"""The HTTP/1.1 protocol of the server: uvicorn's, with problem documents for malformed requests."""

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from app.core.ids import new_id
from app.core.problem_documents import REQUEST_ID, MalformedRequest, problem_response
from app.core.web.security_headers import SECURITY_HEADERS


class HttpProtocol(H11Protocol):
    """Refuses what the parser cannot read, such as NUL in a header, like any other bad request.

    uvicorn itself would respond with text: the application never sees such a request.
    """

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the text of uvicorn
        """Send the problem document and close the connection."""
        response_id = new_id()
        response = problem_response(MalformedRequest(), request_id=response_id)
        own_headers = {REQUEST_ID: response_id, "Connection": "close", **SECURITY_HEADERS}
        response.headers.update(own_headers)
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            start = h11.Response(status_code=response.status_code, headers=response.raw_headers)
            for event in (start, h11.Data(data=bytes(response.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event))
        self.transport.close()
