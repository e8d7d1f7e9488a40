"""What `mosaico init` finds in a folder and the environment, and the draft that follows from each."""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

from mosaico.core.errors import AppError
from mosaico.items.matrix import is_short_text
from mosaico.metrics.measures import EXPECTED, FAILURES, LATENCY, PASSED, Measure, list_measures
from mosaico.metrics.score_directions import direction_of_score
from mosaico.metrics.types import Direction
from mosaico.project_file.folder_search import FolderSearch
from mosaico.project_file.project_draft import ProjectDraft, literal
from mosaico.traces.execution.command import INPUT, parse_command
from mosaico.traces.types import Trace

COMMANDS_FILE: Final = "agent-commands.json"
# Not those of this service: an agent under test must not have the key that creates its benchmark.
_API_KEY: Final = re.compile(r"(?!MOSAICO_)[A-Z0-9_]+_API_KEY")
_PASS, _SIMILARITY = EXPECTED
# Without an API key in the environment, the first one is taken.
_MODELS: Final = (
    ("ANTHROPIC_API_KEY", "anthropic", "claude-opus-5"),
    ("OPENAI_API_KEY", "openai", "gpt-5.4-mini"),
)


class SetupKind(StrEnum):
    """What a benchmark can be made of, in the order in which it is preferred."""

    COMMAND = "command"
    BASH = "bash"
    MCP = "mcp"
    FILES = "files"
    LANGFUSE = "langfuse"
    OTEL = "otel"


class Question(NamedTuple):
    """What nobody but the user knows: the default is taken without a terminal."""

    text: str
    default: str
    choices: Sequence[str] = ()


Ask = Callable[[Question], str]


class Discovery(NamedTuple):
    """Something that was found, in words, and the draft for it, which may ask one thing."""

    kind: SetupKind
    text: str
    draft: Callable[[Ask], ProjectDraft]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The folder, the environment, the command of an agent if the user named one, the name of the project, and the columns
    of results by field that the user named.
    """

    folder: Path
    environment: Mapping[str, str]
    agent_command: str | None
    name: str
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def search(self) -> FolderSearch:
        return FolderSearch(self.folder, self.columns)


def discover(around: Surroundings) -> list[Discovery]:
    """Everything that was found, the preferred first. Raises: `UnusableInput` for a command that cannot be run."""
    finders = (_find_command, _find_bash, _find_mcp, _find_files, _find_langfuse, _find_otel)
    return [discovery for find in finders if (discovery := find(around)) is not None]


def _find_command(around: Surroundings) -> Discovery | None:
    command = around.agent_command
    if command is None:
        return None
    name = _name_of_command(parse_command(command, around.environment).words)

    def draft(_: Ask) -> ProjectDraft:
        items = around.search.find_items()
        guesses = []
        if items is None:
            guesses.append(
                "the dataset questions.csv: the folder has no file with questions; write one with the columns id,"
                " question and expected"
            )
        path, traces = items or (Path("questions.csv"), ())
        keys = sorted(key for key in around.environment if _API_KEY.fullmatch(key))
        if keys:
            guesses.append(f"the agent needs {', '.join(keys)} of the environment")
        allowed = {"command": command, "folder": str(around.folder.resolve()), "environment": keys}
        return ProjectDraft(
            agent=name,
            benchmark_comment=f"The workers run the command {name} of {COMMANDS_FILE} over this file of MOSAICO_HARNESS_DIR.",
            benchmark_fields={
                "source": "harness",
                "datasetRef": literal(path.name),
                "harness": {"command": name},
            },
            measures=[*_measures_of_answers(traces), LATENCY],
            guesses=guesses,
            next_commands=[
                f"MOSAICO_AGENT_COMMANDS=$PWD/{COMMANDS_FILE} MOSAICO_HARNESS_DIR=$PWD mosaico serve"
            ],
            extra_files={COMMANDS_FILE: json.dumps({name: allowed}, indent=2) + "\n"},
        )

    return Discovery(SetupKind.COMMAND, f"the agent's command {command}", draft)


def _find_bash(around: Surroundings) -> Discovery | None:
    tasks = around.search.find_bash_tasks()
    if tasks is None:
        return None
    path, count = tasks

    def draft(ask: Ask) -> ProjectDraft:
        model, guesses = _model_of_tasks(around, ask)
        return ProjectDraft(
            agent=around.name if model["provider"] == "scripted" else str(model["model"]),
            benchmark_comment="The workers run these bash tasks of MOSAICO_HARNESS_DIR with a model of theirs.",
            benchmark_fields={
                "source": "harness", "datasetRef": literal(path.name), "harness": model,
            },
            measures=[PASSED, LATENCY],
            guesses=guesses,
            next_commands=["MOSAICO_HARNESS_DIR=$PWD mosaico serve"],
        )  # fmt: skip

    return Discovery(SetupKind.BASH, f"{path.name} with {count} bash tasks", draft)


def _model_of_tasks(around: Surroundings, ask: Ask) -> tuple[dict[str, Any], list[str]]:
    """The model that solves bash tasks, and what was guessed of it."""
    for variable, provider, model in _MODELS:
        if around.environment.get(variable):
            answer = ask(Question(f"Which model of {provider} solves the tasks?", model))
            return {"provider": provider, "model": literal(answer)}, []
    if script := around.search.find_bash_script():
        guess = f"{script.name} plays the model, because the environment has no key of a provider"
        return {"provider": "scripted", "model": literal(script.name)}, [guess]
    variable, provider, model = _MODELS[0]
    answer = ask(Question(f"Which model of {provider} solves the tasks?", model))
    return {"provider": provider, "model": literal(answer)}, [
        f"the provider {provider}: the environment has no key of one; the workers need {variable}"
    ]


def _find_mcp(around: Surroundings) -> Discovery | None:
    bench = around.search.find_ot_bench()
    if bench is None:
        return None
    path, count = bench

    def draft(_: Ask) -> ProjectDraft:
        return ProjectDraft(
            agent=around.name,
            benchmark_comment="The workers run this ot-bench file of MOSAICO_HARNESS_DIR; it names its servers and models.",
            benchmark_fields={"source": "harness", "datasetRef": literal(path.name), "harness": {}},
            measures=[PASSED, LATENCY],
            next_commands=["MOSAICO_HARNESS_DIR=$PWD mosaico serve"],
        )

    return Discovery(SetupKind.MCP, f"{path.name} with {count} tasks of ot-bench", draft)


def _find_files(around: Surroundings) -> Discovery | None:
    pair = around.search.find_results()
    if pair is None:
        return None

    def draft(_: Ask) -> ProjectDraft:
        earlier, later = (shlex.quote(path.name) for path in (pair.earlier, pair.later))
        columns = "".join(
            f" --map {shlex.quote(f'{name}={column}')}" for name, column in around.columns.items()
        )
        upload = f"mosaico datasets upload {later} --name {shlex.quote(around.name)} --run-name $(date +%F){columns}"
        fields: dict[str, Any] = {"source": "local", "datasetRef": literal(around.name)}
        if around.columns:
            fields["columns"] = {name: literal(text) for name, text in around.columns.items()}
        return ProjectDraft(
            agent=around.name,
            benchmark_comment=f"Each night judges the newest upload: {upload}",
            benchmark_fields=fields,
            measures=_measures_of_answers(pair.traces),
            guesses=[f"{pair.later.name} is the later one, by the times of the files"],
            next_commands=[f"mosaico compare {earlier} {later}", "mosaico serve"],
            later_commands=[upload],
        )

    return Discovery(
        SetupKind.FILES,
        f"results of the same items in {pair.earlier.name} and {pair.later.name}",
        draft,
    )


def _find_langfuse(around: Surroundings) -> Discovery | None:
    environment = around.environment
    if not (environment.get("LANGFUSE_PUBLIC_KEY") and environment.get("LANGFUSE_SECRET_KEY")):
        return None
    address = next((n for n in ("LANGFUSE_BASE_URL", "LANGFUSE_HOST") if environment.get(n)), None)

    def draft(ask: Ask) -> ProjectDraft:
        dataset, items, guesses = _dataset_of_langfuse(environment, around.name, ask)
        fields = {"langfuseUrl": f"${{{address}}}"} if address else {}
        if dataset is None:
            benchmark: dict[str, Any] = {"production": {"since": "24h", "sampleSize": 500}}
            measures = [FAILURES, LATENCY]
            comment = "Each night reads a sample of the traces of the last 24 hours: the project has no dataset."
        else:
            benchmark = {"datasetRef": literal(dataset)}
            measures = [*_measures_of_answers(items), LATENCY]
            comment = "Each night reads the newest run of this dataset."
        return ProjectDraft(
            agent=around.name,
            agent_fields={
                **fields,
                "langfusePublicKey": "${LANGFUSE_PUBLIC_KEY}",
                "langfuseSecretKey": "${LANGFUSE_SECRET_KEY}",
            },
            agent_comment="`mosaico apply` reads the keys from the environment; the service stores the secret one encrypted.",
            benchmark_comment=comment,
            benchmark_fields={"source": "langfuse", **benchmark},
            measures=measures,
            guesses=guesses,
            next_commands=["mosaico serve"],
        )

    where = environment[address] if address else "Langfuse Cloud"
    return Discovery(SetupKind.LANGFUSE, f"keys of Langfuse in the environment ({where})", draft)


def _dataset_of_langfuse(
    environment: Mapping[str, str], default: str, ask: Ask
) -> tuple[str | None, list[Trace], list[str]]:
    """The dataset of the project, its items, and what was guessed; None where the project has no dataset."""
    # The SDK of Langfuse takes long to import.
    from mosaico.harness.langfuse_export import (
        langfuse_project,
        list_datasets,
        read_dataset_items,
    )
    from mosaico.traces.execution.items import item_of_document

    project = langfuse_project(environment)
    try:
        names = list_datasets(project)
        if not names:
            return None, [], []
        name = names[0]
        if len(names) > 1:
            name = ask(Question("Which dataset of Langfuse is judged?", names[0], names))
        items = [item_of_document(row) for row in read_dataset_items(project, name)]
    except AppError as error:
        return default, [], [f"the dataset {default!r}: {error}"]
    traces = [
        Trace(trace_id=item.id, item_id=item.id, expected_output=item.expected_output)
        for item in items
    ]
    return name, traces, []


def _find_otel(around: Surroundings) -> Discovery | None:
    service = _otel_service(around.environment)
    if service is None and not around.environment.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        return None

    def draft(_: Ask) -> ProjectDraft:
        fields = {"otelServiceName": literal(service)} if service else {}
        guesses = [] if service else ["all services: OTEL_SERVICE_NAME is not set"]
        return ProjectDraft(
            agent=service or around.name,
            agent_fields=fields,
            benchmark_comment="Each night reads the spans of the last 24 hours; docs/otel.md has the form of a dataset.",
            benchmark_fields={"source": "otel", "production": {"since": "24h", "sampleSize": 1000}},
            measures=[FAILURES, LATENCY],
            guesses=guesses,
            next_commands=["mosaico serve"],
        )

    text = f"the OpenTelemetry service {service}" if service else "an exporter of OpenTelemetry"
    return Discovery(SetupKind.OTEL, f"{text} in the environment", draft)


def _otel_service(environment: Mapping[str, str]) -> str | None:
    """The service name, which OTEL_SERVICE_NAME sets before the attributes of the resource."""
    if name := environment.get("OTEL_SERVICE_NAME", "").strip():
        return name
    attributes = environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
    pairs = (pair.partition("=") for pair in attributes.split(","))
    named = (value.strip() for key, _, value in pairs if key.strip() == "service.name")
    return next(filter(None, named), None)


def _measures_of_answers(traces: Sequence[Trace]) -> list[Measure]:
    """The KPIs of these traces, the one that decides first: a score, otherwise what fits the expected answers."""
    measures = list_measures(traces)
    if not any(measure.is_quality for measure in measures):
        return [_PASS if not traces else FAILURES, *measures]
    short = [is_short_text(trace.expected_output) for trace in traces]
    # As `compare` chooses: with long expected answers no metric of labels decides.
    is_long = 2 * short.count(True) < len([s for s in short if s is not None])
    unfit = _PASS if is_long else _SIMILARITY
    return [measure for measure in measures if measure is not unfit]


def unknown_directions(measures: Sequence[Measure]) -> Iterator[str]:
    """What is guessed of scores whose names do not say which values are better."""
    for measure in measures:
        is_score = measure.key.startswith("score:")
        if is_score and direction_of_score(measure.name, "", "").direction is Direction.NEITHER:
            yield f"higher values of the score {measure.name} are better"


def _name_of_command(words: Sequence[str]) -> str:
    """`python support_bot.py {input}` is `support_bot`."""
    names = [word for word in words if INPUT not in word and not word.startswith("-")]
    # The program, or the first file that it is given.
    scripts = [word for word in names[1:] if Path(word).suffix] or names[:1]
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", Path(scripts[0]).stem).strip("-.") or "agent"
