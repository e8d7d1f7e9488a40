"""The filters of a list on its page: read from the address, and shown as the fields of a form.

Both follow the filters of the API: a new one is a new field, without any change of the page.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar, get_args, get_origin
from zoneinfo import ZoneInfo

from fastapi import Request
from starlette.datastructures import QueryParams

from mosaico.core.errors import ErrorItem, Invalid
from mosaico.core.schemas import ListFilter
from mosaico.core.web.forms.fields import Choices
from mosaico.core.web.forms.local_times import period_of_days
from mosaico.core.web.forms.sent_fields import check_form
from mosaico.core.web.page_paths import page_parameter
from mosaico.core.web.pages import reader_zone
from mosaico.core.web.query_parameters import is_list_type

F = TypeVar("F", bound=ListFilter)

PERIOD: Final = ("from", "to")
FLAGS: Final = {"true": "yes", "false": "no"}


class FilterField(NamedTuple):
    """A field of the form: `values` are those in the address. One that is not `is_main` is folded without a value."""

    name: str
    values: Sequence[str]
    options: Choices = ()
    type: str = "search"
    is_main: bool = True


class SentFilters(NamedTuple, Generic[F]):
    """The filters in an address: those of the list, as parameters of the API, and as fields."""

    of_list: F
    in_api: Mapping[str, Any]
    fields: Sequence[FilterField]


class PageFilters(Generic[F]):
    """The dependency of a page that reads the filters of `model`, each by its name on pages.

    `main` are the names of the fields that are always visible, in their order.
    """

    def __init__(self, model: type[F], main: str) -> None:
        self._model, self._main = model, main.split()
        types = {
            str(info.validation_alias or name): info.annotation
            for name, info in model.model_fields.items()
        }
        names = {page_parameter(name): name for name in types}
        self._api_names = {name: names[name] for name in (*self._main, *names)}
        self._options = {name: _options_of(types[api]) for name, api in self._api_names.items()}
        self.query_parameters = {name: is_list_type(types[api]) for name, api in names.items()}

    async def __call__(self, request: Request) -> SentFilters[F]:
        return self.read(request.query_params, reader_zone(request))

    def read(self, query: QueryParams, zone: ZoneInfo) -> SentFilters[F]:
        """The filters in a query, whose days are those of a zone. Raises: `Invalid`."""
        texts = {
            name: [text for value in query.getlist(name) if (text := value.strip())]
            for name in self._api_names
        }
        document: dict[str, Any] = {
            api: texts[name] if self.query_parameters[name] else texts[name][0]
            for name, api in self._api_names.items()
            if texts[name]
        }
        since, until = (document.get(name, "") for name in PERIOD)
        period = zip(PERIOD, period_of_days(since, until, zone), strict=True)
        document |= {name: at.isoformat() for name, at in period if at}
        checked = check_form(self._model, document)
        if checked.body is None:
            errors = [
                ErrorItem(pointer=page_parameter(name.partition(".")[0]), detail=text)
                for name, text in checked.errors.items()
            ]
            raise Invalid("a filter is not valid; see `errors`", errors=errors)
        fields = [
            FilterField(
                name, values, self._options[name], "date" if name in PERIOD else "search", name in self._main
            )
            for name, values in texts.items()
        ]  # fmt: skip
        return SentFilters(checked.body, document, fields)


def _options_of(annotation: Any) -> Choices:
    """The values of a filter of a few, with their texts."""
    return [
        (value, FLAGS.get(value) or value.replace("_", " ").lower())
        for value in _values_of(annotation)
    ]


def _values_of(annotation: Any) -> Iterator[str]:
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    elif isinstance(annotation, type) and issubclass(annotation, Enum):
        yield from (str(member) for member in annotation)
    elif annotation is bool:
        yield from FLAGS
    else:
        for part in get_args(annotation):
            yield from _values_of(part)
