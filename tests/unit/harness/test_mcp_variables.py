"""Variables and secrets of a benchmark of `ot-bench`."""

from pathlib import Path

import pytest

from mosaico.core.errors import UnusableInput
from mosaico.harness.lint import LintSeverity
from mosaico.harness.mcp.config import (
    DirectTask,
    HarnessTask,
    HttpServer,
    StdioServer,
)
from mosaico.harness.mcp.loader import (
    InvalidBenchmarkFile,
    TaskIndex,
    host_values,
    load_text,
    require_valid,
    secret_values,
)
from mosaico.harness.mcp.secrets import (
    MalformedVariable,
    Secrets,
    UndefinedVariable,
    expand_variables,
    find_secrets,
    read_secrets,
)
from tests.support.mcp_files import SCENARIO, bench, errors, inspected, task

pytestmark = pytest.mark.usefixtures("loaded_evaluators")


def test_variables__expand_in_servers_and_stay_hidden() -> None:
    servers = (
        "servers:\n  web:\n    type: http\n    url: ${URL:-http://127.0.0.1:1/mcp}\n"
        '    headers:\n      Authorization: "Bearer ${TOKEN}"\n'
    )
    benchmark = bench(inspected(servers + SCENARIO, TOKEN="s3cret"))
    web = benchmark.servers["web"]
    assert isinstance(web, HttpServer)
    assert (web.url, web.headers) == (
        "http://127.0.0.1:1/mcp", {"Authorization": "Bearer s3cret"},
    )  # fmt: skip
    assert "s3cret" not in repr(benchmark)
    assert benchmark.scenarios[0].tasks[0].prompt == "How much is ${PRICE}?"  # type: ignore[union-attr]


def test_variables__expand_in_prompts_arguments_and_evaluators() -> None:
    text = """
evaluators:
  city: {expected: ["${CITY}", "$${CITY}"]}
scenarios:
  - name: s
    tasks:
      - {name: "a:b", prompt: "Where is ${CITY:-Oslo}? Write $${CITY}.", evaluate: city}
      - {name: "a:c", type: direct, server: [], tool: t, arguments: {deep: [{city: "${CITY}"}]}}
"""
    benchmark = inspected(text, CITY="Rome").bench
    assert benchmark is not None
    ask, call = benchmark.scenarios[0].tasks
    assert isinstance(ask, HarnessTask)
    assert isinstance(call, DirectTask)
    assert ask.prompt == "Where is Rome? Write ${CITY}."
    assert call.arguments == {"deep": [{"city": "Rome"}]}
    assert benchmark.evaluators["city"].expected == ["Rome", "${CITY}"]


def test_variables__undefined_one_in_a_task_refuses_that_task_only() -> None:
    text = """
servers: {web: {type: http, url: "http://${HOST}/"}, time: {type: stdio, command: x}}
evaluators: {city: {expected: "${CITY}"}}
scenarios:
  - name: s
    tasks:
      - {name: "a:prompt", prompt: "${WHO}?"}
      - {name: "a:server", prompt: "hi", server: [time, web]}
      - {name: "a:evaluator", prompt: "hi", evaluate: city}
      - {name: "a:fine", prompt: "hi", server: time}
"""
    file = inspected(text)
    require_valid([file])
    with pytest.raises(InvalidBenchmarkFile):
        require_valid([file], strict=True)
    variables = {index.task: text.split()[3] for index, text in file.refusals.items()}
    assert variables == {0: "WHO", 1: "HOST", 2: "CITY"}
    assert "write $${ for a literal ${" in file.refusals[TaskIndex(0, 0)]


def test_variables__malformed_one_is_an_error_where_an_undefined_one_is_a_warning() -> None:
    text = SCENARIO.replace("$${PRICE}", "${") + "        tags: ['${TAG}']\n"
    file = load_text(text.encode(), "b.yaml", Secrets(), {}, undefined=LintSeverity.WARNING)
    assert [(finding.severity, finding.text.split(";")[0]) for finding in file.findings] == [
        (LintSeverity.ERROR, "scenarios/0/tasks/0/prompt: '${?' is not a variable"),
        (LintSeverity.WARNING, "scenarios/0/tasks/0/tags/0: the variable TAG has no value"),
    ]


def test_variables__undefined_one_outside_of_tasks_refuses_the_file() -> None:
    file = inspected('llm: {base_url: "http://${HOST}/"}\n' + SCENARIO)
    assert not file.refusals
    with pytest.raises(InvalidBenchmarkFile):
        require_valid([file])


def test_variables__missing_value_names_variable_and_file() -> None:
    servers = "servers:\n  web:\n    type: http\n    url: http://a/${MY_VAR}\n"
    [error] = errors(inspected(servers + SCENARIO, {"MY_VAR": "of the host"}))
    assert error.startswith("b.yaml:4:10 servers/web/url: the variable MY_VAR has no value")
    assert "config/bench-secrets.yaml" in error
    assert "of the host" not in error


def test_variables__env_uses_secrets_before_host() -> None:
    servers = (
        "servers:\n  a:\n    type: stdio\n    command: x\n    pass_env: [LANG]\n    env:\n"
        "      HOME: ${HOME}\n      KEY: ${KEY}\n      PLAIN: v\n"
    )
    host = {"HOME": "/h", "KEY": "of the host", "LANG": "C", "OTHER": "stays"}
    a = bench(inspected(servers + SCENARIO, host, KEY="secret")).servers["a"]
    assert isinstance(a, StdioServer)
    assert a.env == {"HOME": "/h", "KEY": "secret", "PLAIN": "v", "LANG": "C"}


def test_secret_values__hold_passed_variables_only_under_the_name_of_a_secret() -> None:
    """A short passed value such as `1` is masked nowhere, a short secret of the file everywhere."""
    servers = (
        "servers:\n  a:\n    type: stdio\n    command: x\n"
        "    pass_env: [DEBUG, PORT, API_TOKEN, SHORT_TOKEN]\n    env: {MODE: '${MODE}', PIN: '${PIN}'}\n"
    )
    host = {
        "DEBUG": "1", "MODE": "on", "PORT": "8080", "API_TOKEN": "of-the-host", "SHORT_TOKEN": "abc",
    }  # fmt: skip
    file = inspected(servers + SCENARIO, host, PIN="471")
    assert file.errors == []
    assert secret_values([file], Secrets(values={"PIN": "471"})) == {"471", "of-the-host"}
    assert host_values([file]) == {"8080", "of-the-host"}


def test_variables__program_arguments_do_not_use_host() -> None:
    servers = "servers:\n  a:\n    type: stdio\n    command: x\n    args: ['${HOME}']\n"
    [error] = errors(inspected(servers + SCENARIO, {"HOME": "/h"}))
    assert error.startswith("b.yaml:5:12 servers/a/args/0: the variable HOME has no value")


def test_pass_env__unset_variable_is_an_error() -> None:
    servers = "servers:\n  a:\n    type: stdio\n    command: x\n    pass_env: [NOBODY]\n"
    [error] = errors(inspected(servers + SCENARIO))
    assert "the variable NOBODY is not set" in error


def test_headers__unexpanded_variable_is_an_error() -> None:
    servers = "servers:\n  w:\n    type: http\n    url: http://a\n    headers: {A: '${T}'}\n"
    [error] = errors(inspected(servers + SCENARIO, T="${OTHER}"))
    assert "the header still contains a variable" in error


@pytest.mark.parametrize("secret", ["hidden\n", "hid\rden", "hiddén", "hid\0den"])
def test_headers__invalid_value_is_not_quoted_in_error(secret: str) -> None:
    server = "servers:\n  w:\n    type: http\n    url: http://a/\n    headers: {X-Key: '${KEY}'}\n"
    [error] = errors(inspected(server + task("prompt: hi"), KEY=secret))
    assert error.startswith("b.yaml:5:22 servers/w/headers/X-Key: a header must be one line")
    assert "hid" not in error


def test_variables__expanded_text_is_not_expanded_again() -> None:
    values = {"A": "${B}", "B": "no", "EMPTY": ""}
    assert expand_variables("x${A}y", values.get) == "x${B}y"
    assert expand_variables("[${EMPTY:-default}]", values.get) == "[]"
    assert expand_variables("${C:-a b}", values.get) == "a b"
    assert expand_variables("$${A} $A {A}", values.get) == "${A} $A {A}"
    for malformed in ("${", "${1}", "${A-b}", "${}"):
        with pytest.raises(MalformedVariable):
            expand_variables(malformed, values.get)
    with pytest.raises(UndefinedVariable):
        expand_variables("${MISSING}", values.get)


@pytest.mark.parametrize("text", ["KEY: [hidden]", "- hidden", "KEY: 'hidden", "A: 1\nA: hidden"])
def test_secrets__invalid_file_is_reported_without_its_content(tmp_path: Path, text: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text)
    with pytest.raises(UnusableInput) as raised:
        read_secrets(path)
    assert str(path) in str(raised.value)
    assert "hidden" not in f"{raised.value}{raised.value.extra}"


def test_secrets__project_file_comes_before_user_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    assert find_secrets(None).values == {}
    of_user = tmp_path / "user" / "mosaico" / "bench-secrets.yaml"
    of_user.parent.mkdir(parents=True)
    of_user.write_text("A: user")
    assert find_secrets(None).values == {"A": "user"}
    of_project = tmp_path / "config" / "bench-secrets.yaml"
    of_project.parent.mkdir()
    of_project.write_text("A: project")
    assert find_secrets(None).values == {"A": "project"}
    with pytest.raises(UnusableInput):
        find_secrets(tmp_path / "nowhere.yaml")
