"""How the server says no."""

from typing import Any

JSON = dict[str, Any]


class Refused(Exception):
    """An answer that is not the one asked for."""

    def __init__(self, status: int, body: JSON) -> None:
        super().__init__(status, body)
        self.status = status
        self.body = body


def invalid(message: str) -> Refused:
    return Refused(400, {"message": message, "error": "InvalidRequestError"})


def invalid_data(issues: list[JSON]) -> Refused:
    return Refused(400, {"message": "Invalid request data", "error": issues})


def missing(message: str) -> Refused:
    return Refused(404, {"message": message, "error": "LangfuseNotFoundError"})


def only_in_v4(what: str) -> Refused:
    return missing(
        f"The {what} API is only available in a Langfuse v4 write mode."
        " Learn more at: https://langfuse.com/docs/v4"
    )


def not_in_events_only() -> Refused:
    return Refused(
        404,
        {
            "message": "This endpoint is not available on deployments running in Langfuse v4"
            " events_only mode. Learn more about Langfuse v4 at: https://langfuse.com/docs/v4"
        },
    )
