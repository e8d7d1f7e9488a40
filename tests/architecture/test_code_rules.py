"""Rules of the deployment that a linter does not know."""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mosaico.core.environment import variable_of
from mosaico.core.settings import Settings
from tests.support.references import Reference

ROOT = Path(__file__).resolve().parents[2]
APP = ROOT / "app" / "mosaico"

# Streams, bodies and the worker loop; besides them only the harness waits without a thread.
MAY_BE_ASYNC = {
    # What a route depends on without waiting for anything: a thread for each would cost more.
    "app/mosaico/access/deps.py",
    "app/mosaico/access/idempotency.py",
    "app/mosaico/access/authentication.py",
    "app/mosaico/access/pages.py",
    "app/mosaico/overview/dataset_pages.py",
    "app/mosaico/overview/setup_pages.py",
    "app/mosaico/overview/version_view.py",
    "app/mosaico/traces/datasets/pages.py",
    "app/mosaico/traces/datasets/router.py",
    "app/mosaico/core/http/async_client.py",
    "app/mosaico/core/http/throttle.py",
    "app/mosaico/core/web/deps.py",
    "app/mosaico/core/web/etag.py",
    "app/mosaico/core/web/forms/confirmation.py",
    "app/mosaico/core/web/forms/sent_fields.py",
    "app/mosaico/core/web/forms/page_filters.py",
    "app/mosaico/core/web/query_parameters.py",
    "app/mosaico/core/web/request_origin.py",
    "app/mosaico/core/web/response_headers.py",
    "app/mosaico/core/web/routes.py",
    "app/mosaico/core/web/static_files.py",
    "app/mosaico/core/web/request_body.py",
    "app/mosaico/core/periodic_functions.py",
    "app/mosaico/core/problem_documents.py",
    "app/mosaico/core/web/event_feeds.py",
    "app/mosaico/core/web/forwarded_headers.py",
    "app/mosaico/core/web/sse.py",
    "app/mosaico/core/web/uploads.py",
    "app/mosaico/jobs/job_manager.py",
    "app/mosaico/jobs/job_runner.py",
    "app/mosaico/jobs/worker_process.py",
    "app/mosaico/main.py",
    # A dependency of a list: a thread for it would cost more than it does.
    "app/mosaico/alerts/router.py",
    "app/mosaico/kpis/router.py",
    "app/mosaico/runs/router.py",
    "app/mosaico/traces/otel/router.py",
    "app/mosaico/core/web/health.py",
    "app/mosaico/core/web/prometheus.py",
    "app/mosaico/worker.py",
    # The SDK of MCP is async; the tools are not.
    "app/mosaico/mcp_server/http_transport.py",
    "app/mosaico/mcp_server/server.py",
    "app/mosaico/mcp_server/stdio_transport.py",
    "app/mosaico/sdk/async_client.py",
    # Agents of users may be async.
    "app/mosaico/sdk/experiment.py",
    "app/mosaico/sdk/pytest_plugin.py",
}

# The places where a stranger's failure is survived on purpose.
MAY_CATCH_EVERYTHING = {
    # A metric or KPI that fails touches no other.
    "app/mosaico/comparison/value_failures.py",
    "app/mosaico/core/network_policy.py",
    # They raise in one thread what another raised.
    "app/mosaico/comparison/comparison_store.py",
    "app/mosaico/core/http/threads.py",
    "app/mosaico/core/periodic_functions.py",
    "app/mosaico/core/problem_documents.py",
    "app/mosaico/core/registry.py",
    # Streams of revoked keys must end after any error of a check.
    "app/mosaico/core/web/event_feeds.py",
    "app/mosaico/core/web/forwarded_headers.py",
    "app/mosaico/core/web/sse.py",
    "app/mosaico/harness/bash/check_registry.py",
    "app/mosaico/llm/completion_pool.py",
    "app/mosaico/harness/mcp/evaluator_registry.py",
    "app/mosaico/jobs/job_runner.py",
    "app/mosaico/metrics/engine.py",
    "app/mosaico/postgres/server.py",
    "app/mosaico/sdk/experiment.py",
    # An exporter drops its spans after a 500.
    "app/mosaico/traces/otel/router.py",
}

# An import below the top; a sentence of a docstring may begin with the same words.
DELAYED_IMPORT = r"^\s+(import \w|from [\w.]+ import )"
SECRET_WORDS = re.compile(r"-----BEGIN|sk-lf-[0-9a-f]{8}")


def sources() -> Iterator[Path]:
    return (path for path in sorted(APP.rglob("*.py")))


def trees_with(
    pattern: str, paths: Iterable[Path] | None = None
) -> Iterator[tuple[Path, str, ast.Module]]:
    """Path, text and syntax tree of the modules, or of some, whose text matches the pattern.

    Parsing all modules takes seconds; a rule that names its pattern parses only a few.
    """
    for path in paths if paths is not None else sources():
        text = path.read_text()
        if re.search(pattern, text, re.MULTILINE):
            yield path, text, ast.parse(text)


def is_command_module(path: Path) -> bool:
    return path.stem.endswith("cli") or path.parent.name == "cli"


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports_without_reason(
    function: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str]
) -> bool:
    """Whether it begins with imports that neither a comment nor its docstring explains."""
    imports = [node for node in function.body if isinstance(node, ast.Import | ast.ImportFrom)]
    if not imports or "import" in (ast.get_docstring(function) or "").lower():
        return False
    first = min(node.lineno for node in imports)
    return "#" not in lines[first - 1] and not lines[first - 2].strip().startswith("#")


def imported_module(node: ast.AST) -> str | None:
    if isinstance(node, ast.ImportFrom):
        return node.module
    return node.names[0].name if isinstance(node, ast.Import) else None


def test_modules__only_listed_ones_are_async() -> None:
    async_modules = {
        name_of(path)
        for path, _, tree in trees_with(r"^\s*async def ")
        for node in ast.walk(tree)
        if isinstance(node, ast.AsyncFunctionDef)
    }
    async_folders = ("app/mosaico/harness/", "app/mosaico/llm/", "app/mosaico/traces/execution/")
    other_modules = {name for name in async_modules if not name.startswith(async_folders)}
    assert len(async_modules) > len(other_modules) > 0
    assert other_modules <= MAY_BE_ASYNC


def test_modules__only_listed_ones_catch_every_exception() -> None:
    catching_modules = {
        name_of(path)
        for path in sources()
        if re.search(r"except (Base)?Exception\b", path.read_text())
    }
    assert catching_modules <= MAY_CATCH_EVERYTHING


def test_modules__have_a_docstring() -> None:
    """Files whose role is fixed by their name need no sentence of their own."""
    roles = {"router", "service", "queries", "models", "schemas", "__init__"}
    silent = [
        name_of(path)
        for path, _, tree in trees_with(r'\A(?!""")\s*\S')
        if path.stem not in roles and ast.get_docstring(tree) is None
    ]
    assert silent == []


def test_imports_inside_functions__name_their_reason() -> None:
    """Imports belong to the top; the reason for another place is the time that they take.

    Command modules need no sentence: `--help` imports nothing that only a command uses.
    """
    paths = (path for path in sources() if not is_command_module(path))
    silent = [
        f"{name_of(path)}:{function.name}"
        for path, text, tree in trees_with(DELAYED_IMPORT, paths)
        for lines in [text.splitlines()]
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and imports_without_reason(function, lines)
    ]
    assert silent == []


def test_command_modules__import_the_standard_library_at_the_top() -> None:
    paths = (
        path
        for path in APP.rglob("*.py")
        if is_command_module(path) and not path.is_relative_to(APP / "harness")
    )
    delayed = {
        f"{name_of(path)}: {module}"
        for path, _, tree in trees_with(DELAYED_IMPORT, paths)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for module in map(imported_module, ast.walk(function))
        if module in sys.stdlib_module_names
    }
    assert delayed == set()


def test_settings_page__lists_every_setting() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    names = (variable_of(Settings, field) for field in Settings.model_fields)
    assert [name for name in names if f"`{name}`" not in page] == []


def test_lock_files__contain_hashes_and_no_urls() -> None:
    for name in ("requirements.lock", "requirements-dev.lock"):
        lock = (ROOT / name).read_text()
        assert "://" not in lock
        pins = [line for line in lock.splitlines() if re.match(r"[a-z0-9]", line)]
        assert lock.count("--hash=sha256:") >= len(pins)


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_lock_files__pins_name_the_extras_that_other_pins_require(name: str) -> None:
    # pip takes `coverage[toml]` and `coverage` for two requirements: when a newer coverage appears and
    # only `coverage` is pinned, installing with hashes fails.
    pins = [
        Requirement(line.partition(" \\")[0])
        for line in (ROOT / name).read_text().splitlines()
        if re.match(r"[a-z0-9]", line)
    ]
    pinned_extras = {canonicalize_name(pin.name): pin.extras for pin in pins}
    missing_extras = [
        f"{pin.name} requires {requirement}"
        for pin in pins
        if pin.marker is None or pin.marker.evaluate()
        for text in distribution(pin.name).requires or []
        if (requirement := Requirement(text)).extras
        and any(
            requirement.marker is None or requirement.marker.evaluate({"extra": extra})
            for extra in pin.extras or {""}
        )
        and not requirement.extras <= pinned_extras[canonicalize_name(requirement.name)]
    ]
    assert missing_extras == []


def test_tree__contains_no_secrets() -> None:
    assert [name_of(path) for path in sources() if SECRET_WORDS.search(path.read_text())] == []


def test_reference__inspection_by_pytest_does_not_load_it() -> None:
    reference = Reference("no_such_module")
    assert not hasattr(reference, "_mock_name")
    with pytest.raises(ModuleNotFoundError):
        _ = reference.anything
