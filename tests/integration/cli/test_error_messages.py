"""Errors of commands speak of options, arguments and commands: never of requests and JSON pointers."""

import itertools
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from typer.testing import Result

from mosaico.core.console.examples import EXAMPLES
from mosaico.core.errors import AppError, ErrorItem, Invalid
from mosaico.core.problem_documents import problem_response
from tests.integration.cli.conftest import Shell
from tests.support.cli_reference import LeafCommand, commands
from tests.support.http import serving
from tests.support.service import Service, pair

# Commands that run processes, or work on files and the database only.
LOCAL = {
    *(
        "serve",
        "api",
        "worker",
        "scheduler",
        "db",
        "help",
        "plugins",
        "doctor",
        "purge",
        "secrets",
        "backup",
        "restore",
    ),
    *("formula", "cron", "compare", "score", "bash-eval", "ot-bench", "mcp", "init", "watch"),
}
LOCAL_COMMANDS = {"runs execute"}
LEAVES = [
    leaf
    for leaf in commands()
    if leaf.words[0] not in LOCAL and " ".join(leaf.words) not in LOCAL_COMMANDS
]
NAMES = [" ".join(leaf.words) for leaf in LEAVES]
REQUEST = re.compile(
    r"/api/v1|\b(GET|POST|PUT|PATCH|DELETE)\b|If-Match|Authorization:|Content-Type"
)
POINTER = re.compile(r"(?m)^\s*/\w+|[(`]/\w+[/\w]*[)`]")
# Errors that only programs see: a command sends what the API documents.
OF_PROGRAMS = {
    *("method-not-allowed", "idempotency-key-reused", "malformed-request"),
    *("undecodable-export", "webhook-id-reused", "bad-signature", "stale-signature", "refused-key"),
}
FIELDS = (
    *("/benchmarkId", "/measures/0/formula", "/traceWindow/from", "/matchers/severity", "/id"),
    *("runId", "agentId", "cursor", "/a~1b/1", "/channels/1", "/langfuseSecretKey", "from"),
)


def assert_plain(result: Result) -> None:
    """The output is for people: no request, no pointer, no traceback."""
    assert not REQUEST.search(result.stderr), result.stderr
    assert not POINTER.search(result.stderr), result.stderr
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "this is a bug" not in result.stderr


class Answer(NamedTuple):
    """The answer of a service to every request, and how often it was asked."""

    problem: list[AppError]
    requests: list[str]


@contextmanager
def answering() -> Iterator[tuple[Shell, Answer]]:
    """A service that answers every request with the same problem."""
    answer = Answer([Invalid()], [])

    def respond(request: Request) -> Response:
        answer.requests.append(request.url.path)
        return problem_response(answer.problem[0], request_id="r")

    route = Route("/{path:path}", respond, methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
    with serving(Starlette(routes=[route])) as client:
        variables = {"MOSAICO_URL": str(client.base_url), "MOSAICO_API_KEY": "k"}
        yield Shell(variables=variables), answer


@pytest.fixture(scope="module")
def stub() -> Iterator[tuple[Shell, Answer]]:
    with answering() as shell_and_answer:
        yield shell_and_answer


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The files that the examples name."""
    (tmp_path / "today.csv").write_text("id,output,expected\n1,a,a\n2,b,b\n")
    (tmp_path / "annotations.csv").write_text("runId,traceId,judgement\nr-1,t-1,right\n")
    (tmp_path / "result.json").write_text("{}")
    (tmp_path / "items.csv").write_text("id,input\ni-1,one\n")
    for name in ("nightly", "every-night", "rule"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"name": name}))
    return tmp_path


# Their examples ask, which they cannot do without a terminal.
ASKING = {"alerts ack", "incidents accept", "incidents noise", "runs accept"}


def all_problems() -> list[AppError]:
    """Each error of the product as a service reports it, and errors of many fields."""

    def subclasses(kind: type[AppError]) -> Iterator[type[AppError]]:
        for child in kind.__subclasses__():
            if child.__module__.startswith("mosaico."):
                yield child
            yield from subclasses(child)

    errors = [ErrorItem(pointer=field, detail="is missing; send it") for field in FIELDS]
    problems = [
        default_problem(kind) for kind in subclasses(AppError) if kind.code not in OF_PROGRAMS
    ]
    return [*problems, Invalid("the request is not valid; see `errors`", errors=errors)]


def default_problem(kind: type[AppError]) -> AppError:
    """An error with the text of its class; some classes need arguments."""
    problem = AppError((kind.__doc__ or "").splitlines()[0], code=kind.code)
    problem.status, problem.exit_code = kind.status, kind.exit_code  # type: ignore[misc]
    return problem


def one_per_status(problems: list[AppError]) -> list[AppError]:
    """The last error of each status, in their order."""
    by_status: dict[int, AppError] = {}
    for problem in problems:
        by_status.pop(problem.status, None)
        by_status[problem.status] = problem
    return list(by_status.values())


def test_every_command__shows_no_request_of_an_error(
    stub: tuple[Shell, Answer], files: Path
) -> None:
    """The error of many fields, which each command translates by itself; one function shows the others for
    all commands."""
    *_, field_problem = one_per_status(all_problems())
    assert field_problem.errors
    for name in NAMES:
        check_error_messages(name, stub, [field_problem])


@pytest.mark.prove
def test_every_command__shows_no_request_of_any_error(
    stub: tuple[Shell, Answer], files: Path
) -> None:
    problems = one_per_status(all_problems())
    for name in NAMES:
        check_error_messages(name, stub, problems)


def check_error_messages(name: str, stub: tuple[Shell, Answer], problems: list[AppError]) -> None:
    mosaico, answer = stub
    # The example with files last: the others need none.
    line = EXAMPLES[name][-1]
    words = [word for word in shlex.split(line)[1:] if word not in ("--wait", "--json")]
    words += ["--yes"] if name in ASKING else []
    if name == "apply":
        # Only here: commands of files would judge by it.
        Path("project.yaml").write_text("name: support\nagents: {helpdesk: {}}\n")
        words = [word.replace("mosaico.yaml", "project.yaml") for word in words]
    for problem in problems:
        answer.problem[0] = problem
        answer.requests.clear()
        result = mosaico(*words)
        assert answer.requests, f"{line}: {result.output}"
        assert result.exit_code > 1, f"{line}: {result.output}"
        assert_plain(result)


def test_every_error__is_shown_without_its_request(stub: tuple[Shell, Answer]) -> None:
    mosaico, answer = stub
    problems = all_problems()
    # Classes are known when their modules are imported; the CLI imports all.
    assert len(problems) > 100
    for problem in problems:
        answer.problem[0] = problem
        assert_plain(mosaico("agents", "show", "a"))


HOSTILE = itertools.cycle(("", "NaN", "-1", "9" * 30, "{}", "[1]", "a/b; c", "\x1b[31m", "x" * 300))


def value_options(leaf: LeafCommand) -> list[Any]:
    """The options of a command that take a value, without those that name a file."""
    return [
        param
        for param in leaf.command.params
        if param.param_type_name == "option"
        and not param.is_flag
        and not any("file" in option for option in param.opts)
    ]


@pytest.fixture
def stored_ids(service: Service) -> dict[str, str]:
    """What the words in capitals of the examples stand for; the benchmark and the agent exist, too."""
    service.create_agent("support-bot")
    service.create_benchmark("nightly", datasetRef="support", metrics=["ROUGE"])
    service.upload([pair(number) for number in range(4)], name="support", run_name="monday")
    run = service.complete_run(benchmarkId="nightly", agentId="support-bot")
    rule = {"name": "falls", "benchmarkId": "nightly", "metric": "ROUGE", "condition": "REGRESSED"}
    service.post("/alert-configs", {**rule, "id": "rule-1", "channels": ["IN_APP"]})
    return {"RUN": run["id"], "BASE": run["id"], "RULE": "rule-1", "TRACE": "t-1"}


@pytest.mark.parametrize(
    "commands_of_option",
    [1, pytest.param(len(LEAVES), marks=pytest.mark.prove)],
)
def test_options__refuse_hostile_values_in_words_of_the_command(
    mosaico: Shell, stored_ids: dict[str, str], files: Path, commands_of_option: int
) -> None:
    """Each option gets a hostile value, against a real service: of the options that many commands have,
    such as `--format`, that of the first; one function shows the errors of all.
    """
    uses: Counter[str] = Counter()
    for leaf in LEAVES:
        line = EXAMPLES[" ".join(leaf.words)][-1]
        words = [stored_ids.get(word, word) for word in shlex.split(line)[1:]]
        example = [word for word in words if word not in ("--wait", "--json")]
        for name in (max(option.opts, key=len) for option in value_options(leaf)):
            uses[name] += 1
            if uses[name] > commands_of_option:
                continue
            result = mosaico(*example, f"{name}={next(HOSTILE)}")
            assert_plain(result)
            # sysexits: EX_SOFTWARE, an error of the product.
            assert result.exit_code != 70, result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("benchmarks", "create", "--min-coverage", "nan"), "--min-coverage should be a finite"),
        (("benchmarks", "create", "--production", "NaN"), "--production: 'NaN' is not valid JSON"),
        (("benchmarks", "create", "--triggers", "[", "--dataset", "d"), "--triggers: '[' is not"),
        (("agents", "create", "--id", "a b", "--name", "A"), "--id: should be 1 to 64 letters"),
        (("runs", "start", "b c", "d"), "BENCHMARK: should be 1 to 64 letters"),
        (("runs", "categories", "r", "--field", "a b"), "--field: should be the name of a field"),
        (("agents", "show", "a/b"), "no resource has this ID"),
        (("agents", "create", "--name", ""), "error: some values are not valid\n  --name: should"),
        (("runs", "list", "--limit", "x"), "'--limit': should be a valid integer"),
        (("agents", "list", "--format", "x"), "'--format' (env var: 'MOSAICO_FORMAT'): 'x' is not"),
    ],
)
def test_error__names_the_option(mosaico: Shell, words: tuple[str, ...], message: str) -> None:
    refused = mosaico(*words)
    assert refused.exit_code in (2, 65, 66)
    assert message in refused.stderr
    assert "`errors`" not in refused.stderr


def test_error__of_a_wrong_formula_keeps_its_exit_code(mosaico: Shell, files: Path) -> None:
    """Its class makes its text from other arguments than other errors."""
    refused = mosaico("score", "today.csv", "--formula", "AVERAGE(ROUGE")
    assert refused.exit_code == 65
    assert "  --formula: 1:14: " in refused.stderr
