"""Forms of pages: the sent fields, and their check by the schema of the API."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Generic, NamedTuple, TypeVar
from urllib.parse import parse_qs

from fastapi import Depends, Request
from pydantic import BaseModel, ValidationError

from mosaico.core.errors import ErrorItem, Invalid
from mosaico.core.problem_documents import UnsupportedMediaType, error_items
from mosaico.core.web.form_words import translate_phrases
from mosaico.core.web.request_body import BODY_FIELDS, read_content_type

FORM_TYPE = "application/x-www-form-urlencoded"
MAX_FIELDS = 500

M = TypeVar("M", bound=BaseModel)


class FormFields(dict[str, list[str]]):
    """The sent fields by name; a field may be sent several times."""

    def text(self, name: str, default: str = "") -> str:
        """The last value of a field without surrounding spaces; the default when it was not sent."""
        values = self.get(name)
        return values[-1].strip() if values else default

    def texts(self, name: str) -> list[str]:
        """Every value of a field that is not empty."""
        return [text for value in self.get(name, ()) if (text := value.strip())]


class CheckedForm(NamedTuple, Generic[M]):
    """A form after its check: the valid body, or the error of each wrong field by its name."""

    body: M | None
    errors: Mapping[str, str]


async def read_form(request: Request) -> FormFields:
    """The fields of the form in the body. Raises: `UnsupportedMediaType`, `Invalid`."""
    body = await request.body()
    if body and read_content_type(request) != FORM_TYPE:
        raise UnsupportedMediaType(
            f"This path accepts forms only; send `Content-Type: {FORM_TYPE}`."
        )
    try:
        fields = parse_qs(
            body.decode("utf-8"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"
        )
    except ValueError:
        raise Invalid("The form is not valid: send UTF-8 text and at most 500 fields.") from None
    request.scope.setdefault("state", {})[BODY_FIELDS] = sorted(fields)
    return FormFields(fields)


SentForm = Annotated[FormFields, Depends(read_form)]


def check_form(schema: type[M], document: Mapping[str, Any]) -> CheckedForm[M]:
    """Check a document, built from the fields of a form, by the schema of the API."""
    try:
        return CheckedForm(schema.model_validate(document), {})
    except ValidationError as error:
        flaws = [{**flaw, "loc": ("body", *flaw["loc"])} for flaw in error.errors()]
        errors = errors_by_field(error_items(flaws))
        return CheckedForm(None, {name: translate_phrases(text) for name, text in errors.items()})


def errors_by_field(items: Sequence[ErrorItem]) -> dict[str, str]:
    """The first error of each field, by its name; that of a part of a value is `field.part`."""
    errors: dict[str, str] = {}
    for item in items:
        errors.setdefault(item.pointer.strip("/").replace("/", "."), item.detail)
    return errors


def number_or_text(text: str) -> float | str | None:
    """The number that a text field holds; None for an empty one, the text if it is not a number."""
    if not text:
        return None
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return text


def local_path(path: str, otherwise: str = "/") -> str:
    """The path if it leads to this service, otherwise another one: that of the first page."""
    # A browser reads `//host` and `/\host` as another host.
    is_local = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_local else otherwise
