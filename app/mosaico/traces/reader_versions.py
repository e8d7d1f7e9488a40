"""The versions of all readers of files and spans: what a run reads is measured by them.

Raise a number in `SOURCE_READERS` or `FILE_READERS` when the same file, spans or answers of a source give other traces. The next run
then says that it is measured differently, and what the reader changed is not compared with runs before.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict


class ReaderVersion(NamedTuple):
    """The version of each part of a trace that a reader reads."""

    answers: int = 1
    usage: int = 1


# By name of the trace source. A reader that is not here, of a plugin, has version 1.
SOURCE_READERS: Final[Mapping[str, ReaderVersion]] = {
    "langfuse": ReaderVersion(answers=4, usage=3),
    "otel": ReaderVersion(answers=5, usage=4),
    "harness": ReaderVersion(),
}
# By name of the importer of files: a source of the same name is another reader.
FILE_READERS: Final[Mapping[str, ReaderVersion]] = {
    "csv": ReaderVersion(answers=4, usage=2),
    "jsonl": ReaderVersion(answers=4, usage=2),
    "json": ReaderVersion(answers=4, usage=2),
    "parquet": ReaderVersion(answers=4, usage=2),
    "xlsx": ReaderVersion(answers=3, usage=2),
    "deepeval": ReaderVersion(answers=4),
    "inspect": ReaderVersion(answers=3, usage=3),
    "lm-eval": ReaderVersion(answers=4),
    "promptfoo": ReaderVersion(answers=4),
    "ragas": ReaderVersion(answers=3),
    "traces": ReaderVersion(),
    "agentbench": ReaderVersion(),
    "alpaca-eval": ReaderVersion(),
    "arena-hard": ReaderVersion(),
    "azure-evaluation": ReaderVersion(answers=2),
    "batch": ReaderVersion(answers=2),
    "bedrock": ReaderVersion(),
    "bedrock-rag": ReaderVersion(),
    "bfcl": ReaderVersion(),
    "braintrust": ReaderVersion(answers=2),
    "deepeval-cache": ReaderVersion(),
    "evalplus": ReaderVersion(),
    "harbor": ReaderVersion(),
    "helm": ReaderVersion(),
    "helm-state": ReaderVersion(),
    "helm-stats": ReaderVersion(),
    "langfuse-export": ReaderVersion(answers=2),
    "langsmith": ReaderVersion(answers=2),
    "lighteval": ReaderVersion(),
    "lighteval-leaderboard": ReaderVersion(),
    "mlflow": ReaderVersion(answers=2),
    "mlflow-evaluate": ReaderVersion(answers=2),
    "mt-bench": ReaderVersion(),
    "mt-bench-pairs": ReaderVersion(),
    "openai-evals-api": ReaderVersion(answers=2),
    "openai-evals-log": ReaderVersion(),
    "opencompass": ReaderVersion(),
    "opik": ReaderVersion(answers=2),
    "phoenix": ReaderVersion(answers=2),
    "summaries": ReaderVersion(),
    "swe-bench": ReaderVersion(answers=2),
    "tau-bench": ReaderVersion(answers=2),
    "tau2-bench": ReaderVersion(answers=2),
    "terminal-bench": ReaderVersion(),
    "trulens": ReaderVersion(answers=2),
    "vertex": ReaderVersion(),
    "vertex-document": ReaderVersion(),
    "vertex-evaluation": ReaderVersion(),
    "weave": ReaderVersion(answers=2),
}
_TEXT: Final = re.compile(r"([a-z][a-z0-9_-]{0,63})@([0-9]{1,6})\.([0-9]{1,6})")
# The form of a reader in a query parameter.
READER_PATTERN: Final = f"^{_TEXT.pattern}$"


class TraceReaderVersion(BaseModel):
    """The reader of the traces of a run, with the versions of what it read."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: str
    answers: int = 1
    usage: int = 1

    @property
    def text(self) -> str:
        """The reader in one word: `csv@1.2`, which `parse_reader` reads."""
        return f"{self.name}@{self.answers}.{self.usage}"


def reader_of_source(name: str) -> TraceReaderVersion:
    """The reader of a trace source as it is now."""
    return _reader(name, SOURCE_READERS)


def reader_of_file(name: str) -> TraceReaderVersion:
    """The reader of files of this name as it is now."""
    return _reader(name, FILE_READERS)


def _reader(name: str, versions: Mapping[str, ReaderVersion]) -> TraceReaderVersion:
    version = versions.get(name, ReaderVersion())
    return TraceReaderVersion(name=name, answers=version.answers, usage=version.usage)


def parse_reader(text: str) -> TraceReaderVersion | None:
    """The reader of a text such as `csv@1.2`; None for any other text."""
    match = _TEXT.fullmatch(text)
    if match is None:
        return None
    return TraceReaderVersion(name=match[1], answers=int(match[2]), usage=int(match[3]))
