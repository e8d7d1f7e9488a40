"""Resource commands: a field of a request schema is an option of create and update."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field, SecretStr
from typer.testing import CliRunner, Result

from mosaico.core.console import api_client
from mosaico.core.console.filter_options import flag_filter, id_filter
from mosaico.core.console.generated_command import FieldOption
from mosaico.core.console.resource import Resource
from mosaico.core.console.table import field
from mosaico.core.console.terminal import CommandGroup
from mosaico.core.schemas import WireModel

JSON = dict[str, Any]


class Color(StrEnum):
    RED = "RED"
    BLUE = "BLUE"


class Size(WireModel):
    width: int | None = None
    height: int | None = None


Weight = Annotated[float | None, Field(description="Weight in kg.")]


class WidgetCreate(WireModel):
    """A request body with a field of each kind."""

    id: str | None = None
    name: str
    color: Color = Color.RED
    tags: list[str] = Field(default=["new"])
    weight: Weight = None
    active: bool = True
    agent_id: str | None = None
    secret_key: SecretStr | None = None
    size: Size = Field(default_factory=Size)
    extra: dict[str, Any] = Field(default_factory=dict)
    note: str | list[str] | None = None
    ends_at: datetime | None = None


class WidgetPatch(WireModel):
    name: str = ""
    tags: list[str] = Field(default=[])
    weight: Weight = None


class RecordingApi:
    """Records the requests and returns what it is given."""

    pages_url = "https://m.example"

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Any]] = []

    def page(self, path: str, **parameters: Any) -> JSON:
        self.requests.append(("LIST", path, parameters))
        return {"items": [], "nextCursor": None}

    def full_parameters(self, parameters: JSON) -> JSON:
        return {name: value for name, value in parameters.items() if value is not None}

    def find_id(self, _path: str, text: str) -> str:
        return text

    def get(self, path: str) -> JSON:
        self.requests.append(("GET", path, None))
        return {"id": "w-1", "createdAt": None}

    def get_with_etag(self, path: str) -> tuple[JSON, str]:
        return self.get(path), '"3"'

    def post(self, path: str, body: JSON | None = None) -> JSON:
        self.requests.append(("POST", path, body))
        return {"id": "w-1"}

    def patch(self, path: str, body: JSON) -> JSON:
        self.requests.append(("PATCH", path, body))
        return {"id": "w-1"}

    def delete(self, path: str, etag: str, *, cascade: bool = False) -> None:
        assert not cascade
        self.requests.append(("DELETE", path, etag))


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> RecordingApi:
    recording = RecordingApi()

    @contextmanager
    def open_recording(timeout_s: float) -> Iterator[RecordingApi]:
        yield recording

    monkeypatch.setattr(api_client, "open_client", open_recording)
    return recording


@pytest.fixture
def widgets_cli() -> CommandGroup:
    group = CommandGroup("widgets", help="Manage widgets.")
    widgets = Resource(group=group, noun="blue widget", path="/widgets", page="/widgets")
    filters = {"agentId": id_filter("agent", "/agents"), "old": flag_filter("--old", "Old ones.")}
    widgets.add_list((field("id"),), filters=filters, help_text="List widgets.")
    widgets.add_show(help_text="Show a widget.")
    widgets.add_create(
        f"{__name__}:WidgetCreate",
        options={
            "size": FieldOption(is_flattened=True),
            "weight": FieldOption("--kilos", parse=lambda kilos: kilos * 2),
        },
        help_text="Create a widget.",
        describe=lambda widget: [f"widget {widget['id']} is created"],
    )
    widgets.add_update(f"{__name__}:WidgetPatch")
    widgets.add_delete(help_text="Delete a widget.")
    widgets.add_switches(enable="Enable a widget.", disable="Disable a widget.")
    widgets.add_action("paint", help_text="Paint a widget.", report=lambda _: None, body={})
    return group


def run(group: CommandGroup, *words: str) -> Result:
    return CliRunner().invoke(group, list(words))


def create_body(group: CommandGroup, api: RecordingApi, *words: str) -> Any:
    result = run(group, "create", *words)
    assert result.exit_code == 0, result.output
    [(method, path, body)] = api.requests
    assert (method, path) == ("POST", "/widgets")
    return body


@pytest.mark.parametrize(
    ("words", "body"),
    [
        ((), {}),
        (("--name", "a"), {"name": "a"}),
        (("--color", "blue"), {"color": "BLUE"}),
        (("--tag", "a", "--tag", "b"), {"tags": ["a", "b"]}),
        # `parse` doubles the value, which shows that it is called.
        (("--kilos", "1.5"), {"weight": 3.0}),
        (("--active",), {"active": True}),
        (("--no-active",), {"active": False}),
        (("--agent", "agent-1"), {"agentId": "agent-1"}),
        (("--width", "3"), {"size": {"width": 3}}),
        (("--width", "3", "--height", "4"), {"size": {"width": 3, "height": 4}}),
        (("--extra", '{"a": [1]}'), {"extra": {"a": [1]}}),
        (("--note", "text"), {"note": "text"}),
        (("--ends-at", "2027-01-31T12:00:00Z"), {"endsAt": "2027-01-31T12:00:00Z"}),
    ],
)
def test_create__option_sets_the_field(
    widgets_cli: CommandGroup, api: RecordingApi, words: tuple[str, ...], body: JSON
) -> None:
    assert create_body(widgets_cli, api, *words) == body


def test_create__secret_is_read_from_a_file(
    widgets_cli: CommandGroup, api: RecordingApi, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_text("hidden\n")
    assert create_body(widgets_cli, api, "--secret-key-file", str(file)) == {"secretKey": "hidden"}


def test_create__options_override_the_file(
    widgets_cli: CommandGroup, api: RecordingApi, tmp_path: Path
) -> None:
    file = tmp_path / "widget.json"
    file.write_text(json.dumps({"name": "file", "size": {"width": 1}, "unknown": 1}))
    body = create_body(widgets_cli, api, "--file", str(file), "--name", "b", "--height", "2")
    assert body == {"name": "b", "size": {"width": 1, "height": 2}, "unknown": 1}


def test_create__prints_the_id_and_the_status_lines(
    widgets_cli: CommandGroup, api: RecordingApi
) -> None:
    result = run(widgets_cli, "create", "--name", "a")
    assert (result.stdout, result.stderr) == (
        "w-1\n",
        "widget w-1 is created\npage: https://m.example/widgets/w-1\n",
    )
    assert json.loads(run(widgets_cli, "create", "--json").stdout) == {"id": "w-1"}


def test_create__invalid_json_exits_2(widgets_cli: CommandGroup, api: RecordingApi) -> None:
    result = run(widgets_cli, "create", "--extra", "{")
    assert (result.exit_code, api.requests) == (2, [])
    assert "'{' is not valid JSON" in result.stderr


def test_create_help__states_descriptions_defaults_and_required_fields(
    widgets_cli: CommandGroup,
) -> None:
    text = " ".join(run(widgets_cli, "create", "--help").stdout.split())
    assert "Display name of the blue widget. [required]" in text
    assert "Color. [default: red]" in text
    assert "Tags. Repeatable. [default: new]" in text
    assert "Weight in kg." in text
    assert "Whether" not in text
    assert "[default: yes]" in text


def test_update__sends_the_given_fields_only(widgets_cli: CommandGroup, api: RecordingApi) -> None:
    # An ID with a slash must stay one part of the path.
    result = run(widgets_cli, "update", "w/1", "--name", "b", "--clear", "weight", "--clear", "tag")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "blue widget w/1 is updated\npage: https://m.example/widgets/w%2F1\n"
    assert api.requests == [("PATCH", "/widgets/w%2F1", {"name": "b", "weight": None, "tags": []})]


@pytest.mark.parametrize("words", [(), ("--clear", "name"), ("--clear", "nope")])
def test_update__without_a_field_or_with_an_unknown_one_exits_2(
    widgets_cli: CommandGroup, api: RecordingApi, words: tuple[str, ...]
) -> None:
    assert run(widgets_cli, "update", "w-1", *words).exit_code == 2
    assert api.requests == []


def test_list__sends_the_given_filters(widgets_cli: CommandGroup, api: RecordingApi) -> None:
    assert run(widgets_cli, "list").exit_code == 0
    assert run(widgets_cli, "list", "--agent", "a", "--agent", "b", "--old").exit_code == 0
    unfiltered, filtered = (
        parameters for method, _, parameters in api.requests if method == "LIST"
    )
    assert unfiltered == {"limit": 50}
    assert filtered == {"limit": 50, "agentId": ["a", "b"], "old": True}


def test_delete__dry_run_deletes_nothing_and_yes_deletes_with_the_etag(
    widgets_cli: CommandGroup, api: RecordingApi
) -> None:
    dry_run = run(widgets_cli, "delete", "w-1", "--dry-run")
    assert dry_run.stderr == "would delete blue widget w-1; nothing was changed\n"
    # Without a terminal nobody can confirm.
    assert run(widgets_cli, "delete", "w-1").exit_code == 2
    assert run(widgets_cli, "delete", "w-1", "--yes").stderr == "blue widget w-1 is deleted\n"
    assert api.requests[-1] == ("DELETE", "/widgets/w-1", '"3"')
    assert [method for method, *_ in api.requests].count("DELETE") == 1


def test_switches_and_actions__send_their_requests(
    widgets_cli: CommandGroup, api: RecordingApi
) -> None:
    page = "page: https://m.example/widgets/w-1\n"
    assert run(widgets_cli, "disable", "w-1").stderr == f"blue widget w-1 is disabled\n{page}"
    assert run(widgets_cli, "enable", "w-1").stderr == f"blue widget w-1 is enabled\n{page}"
    assert run(widgets_cli, "paint", "w-1").stderr == page
    assert api.requests == [
        ("PATCH", "/widgets/w-1", {"enabled": False}),
        ("PATCH", "/widgets/w-1", {"enabled": True}),
        ("POST", "/widgets/w-1/paint", {}),
    ]
