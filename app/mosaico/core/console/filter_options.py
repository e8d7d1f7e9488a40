"""Options of list commands: filters by IDs, values of an enumeration, texts and flags; their check."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mosaico.core.console.service import complete_ids
from mosaico.core.console.short_ids import GENERATED_ID_LISTS, NAMED_LISTS
from mosaico.core.console.table import JSON
from mosaico.core.console.terminal import print_status, print_warning
from mosaico.core.errors import NotFound, without_request
from mosaico.core.web.page_paths import path_of

if TYPE_CHECKING:
    from mosaico.core.console.api_calls import QueryValue
    from mosaico.core.console.api_client import ApiClient

# The lists of the resources whose IDs are values of query parameters and of fields.
RESOURCE_LISTS: Mapping[str, str] = {
    "actorId": "/keys",
    "agentId": "/agents",
    "alertConfigId": "/alert-configs",
    "benchmarkId": "/benchmarks",
    "evaluates": "/agents",
    "only": "/benchmarks",
    "runId": "/benchmark-runs",
    "scheduleId": "/schedule-configs",
    "silenceId": "/silences",
}
# Parameters that order the rows and leave none out.
_ORDERS = ("sort",)
# The end of the help of an option that may be given several times.
REPEAT = "Repeatable."


def id_option(noun: str, path: str) -> Any:
    """The option that filters a list by IDs of another resource, in `Annotated[list[str] | None, …]`."""
    help_text = f"Filter by {noun} ID{' or name' if path in NAMED_LISTS else ''}. {REPEAT}"
    return typer.Option(f"--{noun}", help=help_text, autocompletion=complete_ids(path))


def id_filter(noun: str, path: str) -> Any:
    """An option of a list command that filters by IDs of another resource."""
    return Annotated[list[str] | None, id_option(noun, path)]


def choice_filter(option: str, choices: type[Enum], help_text: str) -> Any:
    """An option of a list command that filters by some of a few values."""
    typer_option = typer.Option(option, case_sensitive=False, help=f"{help_text} {REPEAT}")
    return Annotated[list[choices] | None, typer_option]  # type: ignore[valid-type]


def text_filter(option: str, help_text: str, *, ids_of: str | None = None) -> Any:
    """An option of a list command that filters by a text; the shell completes the IDs of a list."""
    completion = complete_ids(ids_of) if ids_of else None
    return Annotated[str | None, typer.Option(option, help=help_text, autocompletion=completion)]


def flag_filter(option: str, help_text: str) -> Any:
    """A flag of a list command."""
    return Annotated[bool | None, typer.Option(option, help=help_text)]


def find_named(api: "ApiClient", fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a request with the IDs of the resources that they name, those of `matchers`, too."""

    def find(name: str, value: Any) -> Any:
        if name == "matchers" and isinstance(value, dict):
            return find_named(api, value)
        path = RESOURCE_LISTS.get(name)
        if path is None:
            return value
        if isinstance(value, list):
            return [api.find_id(path, text) for text in value]
        return api.find_id(path, value) if isinstance(value, str) else value

    return {name: find(name, value) for name, value in fields.items()}


def check_filters(
    api: "ApiClient", rows: Sequence[JSON], filters: "Mapping[str, QueryValue]", noun: str
) -> None:
    """Warn about IDs in the filters of a list that do not exist, and remark that a list is empty.

    IDs of `rows` are not looked up: rows outlive a schedule or an alert rule. Raises: `NotFound` if the
    list is empty because of such an ID.
    """
    for parameter, path in RESOURCE_LISTS.items():
        value = filters.get(parameter)
        for resource_id in value if isinstance(value, list) else [value] if value else []:
            assert isinstance(resource_id, str)
            if not any(_is_of(row.get(parameter), resource_id, path) for row in rows):
                _look_up(api, f"{path}{path_of(resource_id)}", is_fatal=not rows)
    if not rows:
        names = [name for name, value in filters.items() if value and name not in _ORDERS]
        print_status(f"no {noun} matches the filters" if names else f"there is no {noun} yet")


def _is_of(value: object, resource_id: str, path: str) -> bool:
    """Whether a row has the ID of a filter, which may be short where IDs are generated."""
    is_short = path in GENERATED_ID_LISTS and str(value).startswith(resource_id)
    return value == resource_id or is_short


def _look_up(api: "ApiClient", path: str, *, is_fatal: bool) -> None:
    try:
        api.get(path)
    except NotFound as error:
        if is_fatal:
            raise
        print_warning(without_request(error.detail))
