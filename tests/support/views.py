"""Views of the API for tests that need few of their fields."""

from typing import Any, TypeVar

from pydantic import BaseModel

M = TypeVar("M", bound=BaseModel)


def partial_view(model: type[M], **fields: Any) -> M:
    """A view with these fields; the others are None, whatever their type is."""
    return model.model_construct(**{**dict.fromkeys(model.model_fields), **fields})
