"""Error responses of the server."""

from typing import Any

JSON = dict[str, Any]


class ErrorResponse(Exception):
    """An error response with status and body."""

    def __init__(self, status: int, body: JSON) -> None:
        super().__init__(status, body)
        self.status = status
        self.body = body


def invalid_request(message: str) -> ErrorResponse:
    return ErrorResponse(400, {"message": message, "error": "InvalidRequestError"})


def invalid_data(issues: list[JSON]) -> ErrorResponse:
    return ErrorResponse(400, {"message": "Invalid request data", "error": issues})


def not_found(message: str) -> ErrorResponse:
    return ErrorResponse(404, {"message": message, "error": "LangfuseNotFoundError"})


def requires_v4(what: str) -> ErrorResponse:
    return not_found(
        f"The {what} API is only available in a Langfuse v4 write mode."
        " Learn more at: https://langfuse.com/docs/v4"
    )


def unavailable_in_events_only() -> ErrorResponse:
    return ErrorResponse(
        404,
        {
            "message": "This endpoint is not available on deployments running in Langfuse v4"
            " events_only mode. Learn more about Langfuse v4 at: https://langfuse.com/docs/v4"
        },
    )
