"""pytest plugin: an evaluation written as a test; its verdict against a baseline is the test's result.

Every pytest run of an environment with this package imports this module, so it imports pytest only.
"""

import inspect
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mosaico.sdk.results import GateReport

__all__ = (
    "item",
    "pytest_addoption",
    "pytest_configure",
    "pytest_pyfunc_call",
    "pytest_terminal_summary",
)

UPDATE = "--mosaico-update-baseline"
CONFIG, BENCHMARK = "--mosaico-config", "--mosaico-benchmark"
NO_FILE = "none"
BASELINE_FOLDER = "mosaico_baselines"
VERDICTS: pytest.StashKey[list[str]] = pytest.StashKey()
RUN_OPTIONS = ("trials", "concurrency", "item_seconds", "columns")
GATE_OPTIONS = (
    "metrics",
    "kpis",
    "better",
    "ranges",
    "max_drop",
    "non_inferiority_margins",
    "inconclusive_passes",
    "about",
    "run_sd",
    "llm",
)
FILE_OPTIONS = ("config", "benchmark")
MARKER = (
    "mosaico(items, trials=1, baseline=None, metrics=None, kpis=None, better=None, ranges=None,"
    " max_drop=None, non_inferiority_margins=None, inconclusive_passes=None, about=None, history=(), run_sd=None, concurrency=1,"
    " item_seconds=600, columns=None, llm=None, config=None, benchmark=None): call the test for each item and trial, and pass or fail its answers against the"
    " baseline file."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of baselines and benchmarks."""
    group = parser.getgroup("mosaico")
    group.addoption(
        UPDATE, action="store_true", help="write the results of evaluations as their new baselines"
    )
    group.addoption(
        CONFIG,
        metavar="FILE",
        help="file with the benchmark that judges evaluations (default: mosaico.yaml in the current folder, if there"
        " is one; none: no file)",
    )
    group.addoption(
        BENCHMARK, metavar="NAME", help="benchmark of that file (default: the only one)"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def item() -> None:
    """The item of an evaluation: `id`, `input`, `expected_output`; the marker `mosaico` gives it."""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a marked test once for each item and trial, and judge all answers together."""
    marker = pyfuncitem.get_closest_marker("mosaico")
    if marker is None:
        return None
    # Loaded by evaluations only: it takes a second.
    from mosaico import MosaicoError

    try:
        verdict = _evaluate(pyfuncitem, _options(marker))
    except MosaicoError as error:
        places = (f"  {item.pointer}: {item.detail}" for item in error.errors)
        pytest.fail("\n".join([str(error), *places]), pytrace=False)
    pyfuncitem.config.stash.setdefault(VERDICTS, []).append(f"{pyfuncitem.nodeid}: {verdict}")
    return True


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the verdicts of the evaluations that passed; pytest prints those that failed."""
    verdicts = config.stash.get(VERDICTS, [])
    if verdicts:
        terminalreporter.section("mosaico")
        for verdict in verdicts:
            terminalreporter.line(verdict)


def _options(marker: pytest.Mark) -> dict[str, Any]:
    options = {"items", "baseline", "history", *RUN_OPTIONS, *GATE_OPTIONS, *FILE_OPTIONS}
    unknown = sorted({*marker.kwargs} - options)
    if unknown or marker.args or "items" not in marker.kwargs:
        wrong = f"it has no option {unknown[0]!r}" if unknown else "it needs items=…"
        pytest.fail(f"the marker mosaico: {wrong}. Options: {MARKER}", pytrace=False)
    return dict(marker.kwargs)


def _evaluate(test: pytest.Function, options: Mapping[str, Any]) -> str:
    """Run the evaluation and return its verdict in one line; fails the test for a bad one."""
    # The agents' runner and the statistics are loaded by evaluations only.
    from mosaico.sdk.experiment import run_experiment
    from mosaico.sdk.offline import gate

    items = options["items"]
    judges = ("metrics", "kpis", "config")
    task = _Task(test, is_judged_by_metrics=any(options.get(name) for name in judges))
    experiment = run_experiment(
        task.attempt,
        test.path.parent / items if isinstance(items, str) else items,
        save=_result_folder(test),
        # pytest prints what a failed test wrote: a line per attempt would hide the verdict.
        progress=False,
        **{"concurrency": 1, **{name: options[name] for name in RUN_OPTIONS if name in options}},
    )
    if experiment.missing:
        pytest.fail(f"attempts were not made: {', '.join(experiment.missing[:5])}", pytrace=False)
    baseline = _baseline_path(test, options.get("baseline"))
    if test.config.getoption(UPDATE):
        baseline.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(experiment.path, baseline)
        return f"wrote the baseline {baseline}"
    if not baseline.exists():
        pytest.fail(
            f"there is no baseline {baseline}; write it with `pytest {UPDATE}` and commit it",
            pytrace=False,
        )
    report = gate(
        experiment.path,
        baseline=baseline,
        history=_earlier_runs(test, options.get("history", ())),
        **{name: options[name] for name in GATE_OPTIONS if name in options},
        **({} if task.is_judged_by_assertions else _benchmark(test, options)),
    )
    if not report.passed:
        compare = f"details: mosaico compare {baseline} {experiment.path}"
        pytest.fail("\n".join([*_describe(report), compare]), pytrace=False)
    return "; ".join(_describe(report))


def _earlier_runs(test: pytest.Function, history: Iterable[Any]) -> list[Any]:
    """The results of earlier runs: names of files are beside the test file."""
    return [
        test.path.parent / results if isinstance(results, str | Path) else results
        for results in history
    ]


def _benchmark(test: pytest.Function, options: Mapping[str, Any]) -> dict[str, Any]:
    """The file and the benchmark that judge: of the marker, of the command line, or `mosaico.yaml` in the current folder."""
    # Loaded by evaluations only.
    from mosaico.project_file.benchmark_options import find_default_file

    name = options.get("benchmark") or test.config.getoption(BENCHMARK)
    if config := options.get("config"):
        return {"config": test.path.parent / config, "benchmark": name}
    config = test.config.getoption(CONFIG)
    if config == NO_FILE:
        return {}
    return {"config": config or find_default_file(), "benchmark": name}


class _Task:
    """The test as an agent. A test that returns nothing is judged by its assertions."""

    def __init__(self, test: pytest.Function, *, is_judged_by_metrics: bool) -> None:
        self._fixtures = {
            name: test.funcargs[name] for name in inspect.signature(test.obj).parameters
        }
        others = {name: self._fixtures[name] for name in self._fixtures if name != "item"}
        self._call = partial(test.obj, **others)
        self._is_judged_by_metrics = is_judged_by_metrics
        self._has_answers = False

    @property
    def is_judged_by_assertions(self) -> bool:
        """Whether no attempt returned an answer that metrics could judge."""
        return not (self._is_judged_by_metrics or self._has_answers)

    async def attempt(self, item: Any) -> Any:
        arguments = {"item": item} if "item" in self._fixtures else {}
        try:
            returned = self._call(**arguments)
            answer = await returned if inspect.isawaitable(returned) else returned
        except AssertionError as error:
            if self._is_judged_by_metrics:
                raise
            return {"output": str(error), "scores": {"TASK_PASSED": 0.0}}
        if answer is None and not self._is_judged_by_metrics:
            return {"output": "", "scores": {"TASK_PASSED": 1.0}}
        self._has_answers = True
        return answer


def _describe(report: "GateReport") -> list[str]:
    # Loaded by evaluations only.
    from mosaico.gating.reports import check_rows

    checks = [" | ".join(filter(None, row)) for row in check_rows(report.result)]
    return [str(report.outcome), *checks, *report.sentences]


def _file_stem(test: pytest.Function) -> str:
    return re.sub(r"[^\w.-]+", "_", f"{test.path.stem}.{test.name}").strip("_")


def _baseline_path(test: pytest.Function, baseline: str | Path | None) -> Path:
    """The baseline beside the test file, unless the marker names another one from there."""
    return test.path.parent / (baseline or f"{BASELINE_FOLDER}/{_file_stem(test)}.jsonl")


def _result_folder(test: pytest.Function) -> Path:
    """An empty folder for the answers of this run."""
    cache = getattr(test.config, "cache", None)
    if cache is None:
        return Path(tempfile.mkdtemp(prefix="mosaico-"))
    folder = Path(cache.mkdir("mosaico")) / _file_stem(test)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder
