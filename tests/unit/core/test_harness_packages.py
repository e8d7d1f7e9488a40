"""The extra `harness`, and the errors of a service without it."""

import tomllib

import pytest
from packaging.requirements import Requirement

from mosaico.core import harness_packages
from mosaico.core.harness_packages import MODULES, MissingHarnessPackages, require_harness_packages
from mosaico.core.llm_server import LlmServer
from mosaico.metrics.remote_measurement import with_model
from mosaico.metrics.types import MetricRef
from tests.support.processes import ROOT


@pytest.fixture
def missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness_packages, "MODULES", ("no_such_package",))


def test_modules__are_those_of_the_distributions_of_the_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = map(Requirement, project["optional-dependencies"]["harness"])
    assert {requirement.name.replace("-", "_") for requirement in requirements} == set(MODULES)


def test_require_harness_packages__accepts_the_environment_of_the_lock() -> None:
    require_harness_packages()


@pytest.mark.usefixtures("missing_extra")
def test_require_harness_packages__without_them_names_the_command() -> None:
    with pytest.raises(MissingHarnessPackages, match=r"-m pip install 'mosaico\[harness\]=="):
        require_harness_packages()


@pytest.mark.usefixtures("missing_extra")
def test_with_model__without_the_sdk_fails_before_a_run_collects_traces() -> None:
    server = LlmServer(base_url="http://127.0.0.1:9/v1", model="judge")
    with pytest.raises(MissingHarnessPackages):
        with_model(MetricRef.of("LLM_JUDGE", {}), server)
