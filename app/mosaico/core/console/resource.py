"""Commands of a REST resource: list, show, create, update, delete and actions on one of them.

A domain declares a `Resource` and adds the commands that the resource has. The options of `create`
and `update` are the fields of the API's own request schemas: a new field of a schema is a new
option, without any change here or in the domain's `cli` module.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from keyword import iskeyword
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qsl, urlencode

import typer

from mosaico.core.console.filter_options import check_filters, find_named
from mosaico.core.console.generated_command import (
    OUTPUT,
    CommandParameter,
    FieldOption,
    GeneratedFunction,
    SchemaOption,
    Values,
    build_command,
    clear_fields,
    import_object,
    indefinite,
    read_body,
)
from mosaico.core.console.resource_arguments import Fields, Limit, id_argument
from mosaico.core.console.service import open_api
from mosaico.core.console.table import (
    JSON,
    Column,
    format_cell,
    print_change,
    print_link,
    print_page,
    print_resource,
)
from mosaico.core.console.terminal import (
    CommandGroup,
    DryRun,
    OutputFormat,
    WrongUsage,
    Yes,
    confirm,
    is_interactive,
    print_json,
    print_status,
)
from mosaico.core.errors import Conflict
from mosaico.core.web.page_paths import page_parameter, path_of

if TYPE_CHECKING:
    from mosaico.core.console.api_calls import QueryValue
    from mosaico.core.console.api_client import ApiClient

# The code of `mosaico.core.dependents.DependentsExist`, whose module needs the database.
DEPENDENTS_EXIST = "dependents-exist"
# Immutable, because it is the default of parameters.
NOTHING: Mapping[str, Any] = MappingProxyType({})


def _filter_name(key: str) -> str:
    """The name of the option of a query parameter: no word of Python, such as `from`."""
    return f"{key}_" if iskeyword(key) else key


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A REST resource: its commands go into `group`, its pages for people are below `page`, with
    `page_suffix` after the ID; `list_page` is the page of its list where that is another one than
    `page`, and the page of each resource without `page`. `flag_tabs` are the flags of
    the list that are another parameter of its page: the flag, that parameter and its value.
    """

    group: CommandGroup
    noun: str
    path: str
    page: str | None = None
    page_suffix: str = ""
    list_page: str | None = None
    flag_tabs: tuple[tuple[str, str, str], ...] = ()

    @property
    def argument(self) -> Any:
        """The argument that names one resource by its ID."""
        return Annotated[str, id_argument(self.noun, self.path)]

    def add_list(
        self,
        columns: Sequence[Column],
        *,
        help_text: str,
        filters: Values = NOTHING,
        limit: int = 50,
        name: str = "list",
    ) -> None:
        """Add `list`; `filters` are its options by the name of the query parameter."""

        def run(values: Values) -> None:
            # A flag that is not set is not sent: `false` would filter as well.
            parameters: dict[str, QueryValue] = {
                key: values[_filter_name(key)] or None for key in filters
            }
            with open_api() as api:
                parameters = find_named(api, api.full_parameters(parameters))
                page = api.page(self.path, limit=values["limit"], **parameters)
                check_filters(api, page["items"], parameters, self.noun)
                pages_url = api.pages_url
            print_page(page, columns, values["output"], values["fields"])
            print_link(f"{pages_url}{self._page_of_list(parameters)}", values["output"])

        self._add(
            name,
            run,
            *(CommandParameter(_filter_name(key), option) for key, option in filters.items()),
            CommandParameter("limit", Limit, limit),
            CommandParameter("fields", Fields),
            OUTPUT,
            help_text=help_text,
        )

    def add_show(self, *, help_text: str, print_one: Callable[[JSON], None] | None = None) -> None:
        """Add `show`; `print_one` prints one resource for people."""

        def run(values: Values) -> None:
            with open_api() as api:
                resource_id = self._find_id(api, values)
                resource, pages_url = api.get(self._path_of(resource_id)), api.pages_url
            if values["output"] is OutputFormat.JSON:
                print_json(resource)
            else:
                (print_one or print_resource)(resource)
            self._print_page(pages_url, values, resource_id)

        self._add("show", run, self._id, OUTPUT, help_text=help_text)

    def add_create(
        self,
        schema: str,
        *,
        help_text: str,
        options: Mapping[str, FieldOption] = NOTHING,
        describe: Callable[[JSON], Sequence[str]],
        result_field: str = "id",
    ) -> None:
        """Add `create`; `describe` gives the status lines, `result_field` the printed result."""

        def run(values: Values, fields: Sequence[SchemaOption]) -> None:
            with open_api() as api:
                created = api.post(self.path, find_named(api, read_body(values, fields)))
                pages_url = api.pages_url
            print_change(created, values["output"], describe(created), created[result_field])
            self._print_page(pages_url, values, created.get("id", ""))

        def load() -> Any:
            # When the command is used: `agents --help` must not import pydantic.
            from mosaico.core.console.schema_options import create_options

            fields = create_options(import_object(schema), self.noun, options)
            parameters = [*(field.parameter for field in fields), self._file, OUTPUT]
            return build_command(
                "create", lambda values: run(values, fields), parameters, create_help
            )

        create_help = f"{help_text}\n\nOptions override the same fields of --file."
        self.group.add_deferred("create", load, help_text=create_help)

    def add_update(
        self,
        schema: str,
        *,
        options: Mapping[str, FieldOption] = NOTHING,
        describe: Callable[[JSON], Sequence[str]] = lambda _: (),
    ) -> None:
        """Add `update`, which changes the fields whose options are given."""

        def run(values: Values, fields: Sequence[SchemaOption]) -> None:
            body = read_body(values, fields)
            clear_fields(body, values, fields)
            if not body:
                raise WrongUsage(
                    "the command names no field to change", hint="add an option or --file; see -h"
                )
            self._change("update", body, describe, values)

        def load() -> Any:
            # As in `add_create`.
            from mosaico.core.console.schema_options import clear_option, update_options

            fields = update_options(import_object(schema), self.noun, options)
            parameters = [self._id]
            parameters += [field.parameter for field in fields]
            parameters += [*clear_option(fields), self._file, OUTPUT]
            return build_command(
                "update", lambda values: run(values, fields), parameters, update_help
            )

        update_help = (
            f"Change fields of {indefinite(self.noun)}; the others keep their values.\n\n"
            "Options override the same fields of --file."
        )
        self.group.add_deferred("update", load, help_text=update_help)

    def add_delete(
        self,
        *,
        help_text: str,
        verb: str = "delete",
        describe: Callable[[JSON], str] | None = None,
        dependents: str | None = None,
    ) -> None:
        """Add `delete`, which asks for confirmation; `describe` adds details to the ID in the
        question. `dependents` says what else `--cascade` deletes.
        """

        def run(values: Values) -> None:
            with open_api() as api:
                # Read first: a missing resource is reported before the question, and the ETag makes
                # the deletion fail if somebody changes the resource before the user answers.
                resource_id = self._find_id(api, values)
                resource, etag = api.get_with_etag(self._path_of(resource_id))
                label = self._label(resource_id) + (f" ({describe(resource)})" if describe else "")
                if values["dry_run"]:
                    print_status(f"would {verb} {label}; nothing was changed")
                    return
                confirm(f"{verb.capitalize()} {label}? This cannot be undone.", yes=values["yes"])
                _delete(api, self._path_of(resource_id), etag, values)
            print_status(f"{label} is {verb}d")

        cascade = typer.Option("--cascade", help=f"Also delete {dependents}, without asking.")

        self._add(
            verb,
            run,
            self._id,
            CommandParameter("yes", Yes, default=False),
            CommandParameter("dry_run", DryRun, default=False),
            *(
                [CommandParameter("cascade", Annotated[bool, cascade], default=False)]
                if dependents
                else ()
            ),
            help_text=help_text,
        )

    def add_switches(
        self, *, enable: str, disable: str, describe: Callable[[JSON], Sequence[str]] = lambda _: ()
    ) -> None:
        """Add `enable` and `disable`, with their help texts."""
        for name, help_text, enabled in (("enable", enable, True), ("disable", disable, False)):
            run = partial(self._change, name, {"enabled": enabled}, describe)
            self._add(name, run, self._id, OUTPUT, help_text=help_text)

    def _change(
        self, verb: str, body: JSON, describe: Callable[[JSON], Sequence[str]], values: Values
    ) -> None:
        with open_api() as api:
            resource_id = self._find_id(api, values)
            updated = api.patch(self._path_of(resource_id), find_named(api, body))
            pages_url = api.pages_url
        lines = [f"{self._label(resource_id)} is {verb}d", *describe(updated)]
        print_change(updated, values["output"], lines)
        self._print_page(pages_url, values, resource_id)

    def add_action(
        self,
        name: str,
        *,
        help_text: str,
        report: Callable[[JSON], None] | None = None,
        describe: Callable[[JSON], Sequence[str]] = lambda _: (),
        endpoint: str | None = None,
        parameters: Mapping[str, Any] = NOTHING,
        body: JSON | None = None,
        question: str | None = None,
    ) -> None:
        """Add a command that posts to `<path>/<id>/<endpoint>`; `report` prints the response, `describe`
        gives the status lines.

        `parameters` are options whose values are the fields of the body. `question` is asked before; its `{}` is
        the noun and the ID.
        """

        def run(values: Values) -> None:
            fields = {key: values[key] for key in parameters if values[key] is not None}
            content = {**(body or {}), **fields} if parameters or body is not None else None
            with open_api() as api:
                resource_id = self._find_id(api, values)
                if question is not None:
                    # Read first: a missing resource is reported before the question.
                    api.get(self._path_of(resource_id))
                    confirm(question.format(self._label(resource_id)), yes=values["yes"])
                response = api.post(f"{self._path_of(resource_id)}/{endpoint or name}", content)
                pages_url = api.pages_url
            if report and values["output"] is not OutputFormat.JSON:
                report(response)
            else:
                print_change(response, values["output"], describe(response))
            self._print_page(pages_url, values, resource_id)

        self._add(
            name,
            run,
            self._id,
            *(CommandParameter(key, annotation) for key, annotation in parameters.items()),
            *([CommandParameter("yes", Yes, default=False)] if question is not None else ()),
            OUTPUT,
            help_text=help_text,
        )

    def _add(
        self,
        name: str,
        run: Callable[[Values], None],
        *parameters: CommandParameter,
        help_text: str,
    ) -> None:
        self.group.command(name, help=help_text)(GeneratedFunction(name, run, parameters))

    def _print_page(self, pages_url: str, values: Values, resource_id: str) -> None:
        """Print the address of the page of a resource."""
        page = (
            f"{self.page}{path_of(resource_id)}{self.page_suffix}" if self.page else self.list_page
        )
        print_link(f"{pages_url}{page}", values["output"])

    def _page_of_list(self, parameters: "Mapping[str, QueryValue]") -> str:
        """The page of the list with the same filters and order."""
        path, _, query = (self.list_page or self.page or "").partition("?")
        selection = dict(parse_qsl(query)) | page_query(parameters)
        for flag, name, value in self.flag_tabs:
            if selection.pop(flag, None):
                selection[name] = value
        return f"{path}?{urlencode(selection, doseq=True)}" if selection else path

    def _find_id(self, api: "ApiClient", values: Values) -> str:
        """The ID of the resource that a command names."""
        return api.find_id(self.path, values["id"])

    def _path_of(self, resource_id: str) -> str:
        return f"{self.path}{path_of(resource_id)}"

    def _label(self, resource_id: str) -> str:
        """The resource that a command names, for its messages."""
        return f"{self.noun} {format_cell(resource_id)}"

    @property
    def _id(self) -> CommandParameter:
        return CommandParameter("id", self.argument, ...)

    @property
    def _file(self) -> CommandParameter:
        option = typer.Option(
            "--file", metavar="FILE", help=f"The {self.noun} as JSON for the API; - is stdin."
        )
        return CommandParameter("file", Annotated[str | None, option])


def _delete(api: "ApiClient", path: str, etag: str | None, values: Values) -> None:
    """Delete a resource; asks, naming them, before others go with it."""
    cascade = values.get("cascade", False)
    try:
        api.delete(path, etag, cascade=cascade)
    except Conflict as error:
        if error.error_code != DEPENDENTS_EXIST:
            raise
        if values["yes"] or not is_interactive(sys.stdin):
            error.extra["hint"] = "add --cascade to delete all of it"
            raise
        for item in error.errors:
            print_status(item.detail)
        confirm("Delete all of it?", yes=False)
        api.delete(path, etag, cascade=True)


def page_query(parameters: "Mapping[str, QueryValue]") -> dict[str, Any]:
    """Filters of the API as those of a page."""
    return {
        page_parameter(name): "true" if value is True else value
        for name, value in parameters.items()
        if value
    }
