"""Everything that docs/api.md and the pages after it show is true, and the pages show every route."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import httpx

from tests.support.described_api import api_routes, roles
from tests.support.service import Service
from tests.support.waiting import LIVENESS_S

DOCS = Path(__file__).parents[2] / "docs"
# The commands of a page go on where those of the page before ended.
TEXT = "".join(
    (DOCS / f"{page}.md").read_text(encoding="utf-8")
    for page in ("api", "api-traces", "api-runs", "api-conventions")
)
PAGES = "".join(page.read_text(encoding="utf-8") for page in DOCS.glob("*.md"))


class PageExample(NamedTuple):
    """A command of the page and what it prints there."""

    command: str
    output: str


def examples() -> list[PageExample]:
    blocks = re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)
    lines = (
        command for block in blocks for command in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    )
    return [PageExample(*command.partition("\n")[::2]) for command in lines]


class PageShell:
    """Somebody who types the commands of the page, with curl and jq."""

    def __init__(self, service: Service, folder: Path) -> None:
        self.service = service
        self.folder = folder
        token = service.client.headers["Authorization"].removeprefix("Bearer ")
        self.variables = {"API": f"{service.client.base_url}/api/v1", "KEY": token}

    def type(self, command: str) -> str:
        assignment = re.fullmatch(r"(\w+)=\$\((curl .*) \| jq -r \.(\w+)\)", command)
        if assignment is None:
            return self._curl(command).text
        self.variables[assignment[1]] = self._curl(assignment[2]).json()[assignment[3]]
        return ""

    def _curl(self, command: str) -> httpx.Response:
        words = iter(map(self._expanded, shlex.split(command)))
        assert next(words) == "curl"
        method, headers, content, url = "GET", {}, None, None
        for word in words:
            match word:
                case "-s" | "-N":
                    pass
                case "-X":
                    method = next(words)
                case "-H":
                    name, _, value = next(words).partition(": ")
                    headers[name] = value
                case "--json" | "--data-binary":
                    content_text = next(words)
                    content = (
                        (self.folder / content_text[1:]).read_bytes()
                        if content_text.startswith("@")
                        else content_text.encode()
                    )
                    method = "POST" if method == "GET" else method
                    if word == "--json":
                        headers |= {"Content-Type": "application/json"}
                case _:
                    assert word.startswith("http"), f"the page uses {word!r}, which nobody reads"
                    url = word
        assert url is not None
        # The stream ends with its run.
        if url.endswith("/events"):
            self.service.work()
        with httpx.Client(trust_env=False, verify=False, timeout=LIVENESS_S) as stranger:
            return stranger.request(method, url, headers=headers, content=content)

    def _expanded(self, word: str) -> str:
        return re.sub(r"\$(\w+)", lambda name: self.variables[name[1]], word)


def matches_output(documented: str, printed: str) -> bool:
    """Whether they are the same but for white space and what `…` stands for."""
    pattern = ".*".join(re.escape(_without_spaces(part)) for part in documented.split("…"))
    return re.fullmatch(pattern, _without_spaces(printed), re.DOTALL) is not None


def _without_spaces(text: str) -> str:
    return re.sub(r"\s+", "", text)


def test_api_page__commands_print_the_documented_output(service: Service, tmp_path: Path) -> None:
    traces = re.search(r"```jsonl\n(.*?)```", TEXT, re.DOTALL)
    assert traces is not None
    (tmp_path / "traces-1.jsonl").write_text(traces[1], encoding="utf-8")
    reader = PageShell(service, tmp_path)
    page_examples = examples()
    assert len(page_examples) >= 13
    for command, output in page_examples:
        printed = reader.type(command)
        assert matches_output(output, printed), f"{command}\n{printed}"


def test_api_page__comparison_detects_a_difference() -> None:
    assert matches_output('{"a": 1, …}', '{"a":1,"b":2}')
    assert not matches_output('{"a": 1, …}', '{"a":2,"b":2}')
    assert not matches_output("{}", '{"a":2}')


def documented_path(path: str) -> str:
    """The path as pages name it: without the prefix, and without the type of a parameter."""
    return path.removeprefix("/api/v1").replace(":path}", "}")


def test_api_page__every_route_is_in_one_table_with_its_role() -> None:
    needed = {
        f"{method} {documented_path(route.path)}": roles(route.dependant) or ["a signature"]
        for route in api_routes()
        if route.path is not None
        for method in route.methods or ()
    }
    rows = re.findall(r"^\| `([A-Z]+ /[^`]+)` \| ([\w ]+) \|", PAGES, re.MULTILINE)
    assert {route: [role] for route, role in rows} == needed
    assert len(rows) == len(needed)
