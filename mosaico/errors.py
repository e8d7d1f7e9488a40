"""The errors that this package raises; each says what is wrong and what to do."""

from app.core.errors import (
    AppError as MosaicoError,
)
from app.core.errors import (
    Conflict,
    ErrorItem,
    Forbidden,
    Invalid,
    NotFound,
    TooLarge,
    Unauthorized,
    Unavailable,
)
from app.llm.request_budget import LlmBudgetExhausted

__all__ = (
    "Conflict",
    "ErrorItem",
    "Forbidden",
    "Invalid",
    "LlmBudgetExhausted",
    "MosaicoError",
    "NotFound",
    "TooLarge",
    "Unauthorized",
    "Unavailable",
)
