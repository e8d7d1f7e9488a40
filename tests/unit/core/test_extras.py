"""The extras, and the errors of a service without them."""

import re
import shlex
import tomllib
from importlib.metadata import distribution

import pytest
from packaging.requirements import Requirement

from mosaico.core import extras
from mosaico.core.extras import MODULES, MissingPackages, install_command, require_extra
from mosaico.core.llm_server import LlmServer
from mosaico.metrics.remote_measurement import with_model
from mosaico.metrics.types import MetricRef
from tests.support.processes import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def requirements_of(extra: str) -> list[Requirement]:
    """The requirements of an extra, with those of the extras that it includes."""
    listed = map(Requirement, PROJECT["optional-dependencies"][extra])
    return [
        requirement
        for entry in listed
        for requirement in (
            [entry]
            if entry.name != "mosaico"
            else [of for included in entry.extras for of in requirements_of(included)]
        )
    ]


def top_level_modules(requirement: Requirement) -> set[str]:
    names = [str(file) for file in distribution(requirement.name).files or ()]
    return {name.partition("/")[0] for name in names if name.endswith("/__init__.py")}


@pytest.fixture
def missing_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.MODULES, "models", ("no_such_package",))


def test_modules__are_those_of_the_distributions_of_each_extra() -> None:
    """All extras but `pytest`: whoever misses it has not started it."""
    assert set(MODULES) == PROJECT["optional-dependencies"].keys() - {"pytest"}
    for extra, modules in MODULES.items():
        roots = {module.partition(".")[0] for module in modules}
        for requirement in requirements_of(extra):
            assert top_level_modules(requirement) & roots, requirement
        assert len(modules) == len(requirements_of(extra))


def test_require_extra__accepts_the_environment_of_the_lock() -> None:
    require_extra("harness", "the commands of ot-bench")


def test_require_extra__knows_a_module_whose_package_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(extras.MODULES, "mcp", ("no_such_package.sdk",))
    with pytest.raises(MissingPackages, match=r"mosaico\[mcp\]=="):
        require_extra("mcp", "MCP servers")


@pytest.mark.usefixtures("missing_models")
def test_require_extra__without_the_packages_names_the_command_and_what_works_instead() -> None:
    with pytest.raises(MissingPackages, match="no model is asked") as raised:
        require_extra("models", "judges", instead=", or take ROUGE: no model is asked")
    [command] = re.findall(r"`(.+)`", raised.value.detail)
    assert {"pip", "install"} <= {*shlex.split(command)}
    assert shlex.split(command)[-1] == f"mosaico[models]=={PROJECT['version']}"


def test_install_command__of_an_environment_without_pip_uses_uv(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As `uv tool install` makes them."""
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    assert install_command("mcp").startswith("uv pip install --python ")


@pytest.mark.usefixtures("missing_models")
def test_with_model__without_the_sdk_fails_before_a_run_collects_traces() -> None:
    server = LlmServer(base_url="http://127.0.0.1:9/v1", model="judge")
    with pytest.raises(MissingPackages):
        with_model(MetricRef.of("LLM_JUDGE", {}), server)
