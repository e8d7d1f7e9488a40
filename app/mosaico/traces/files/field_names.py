"""The fields of a table of results, and the names of the columns that hold them; pure.

Columns of texts are recognized by their words (`column_words`).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

# The names of a column that holds a field, the most certain first. A column holds one field. The texts are recognized
# by their words (`column_words`).
NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "traceId": ("traceid",),
    "item": (
        "item", "itemid", "questionid", "qid", "caseid", "testcaseid", "testid", "sampleid", "exampleid",
        "datasetitemid", "customid", "instanceid", "promptid", "taskid", "docid", "dataindex", "case", "key", "uid",
        "id", "name", "keyoftheobject",
    ),
    "trial": ("trial", "epoch", "repeat", "repetition", "repetitionnumber", "attempt"),
    "output": (),
    "expected": (),
    "input": ("input", "question", "userinput", "prompt", "query", "instruction", "request"),
    "outcome": ("outcome",),
    "error": ("error", "errormessage", "exception"),
    "passed": (
        "passed", "pass", "success", "correct", "iscorrect", "taskpassed", "resolved", "isresolved",
    ),
    "score": ("score", "taskscore", "grade"),
    "scores": ("scores",),
    "latencyMs": ("latencyms", "durationms", "elapsedms", "responsetimems"),
    "latencySeconds": (
        "latencys", "latencysec", "latencyseconds", "durations", "durationseconds", "seconds",
        "elapsedseconds", "walltimesec", "executiontimeseconds",
    ),
    "cost": ("costusd", "cost", "totalcost", "priceusd", "usd"),
    "inputTokens": (
        "inputtokens", "prompttokens", "tokensin", "inputtokencount", "prompttokencount",
    ),
    "outputTokens": (
        "outputtokens", "completiontokens", "tokensout", "outputtokencount", "completiontokencount",
    ),
    "model": ("model", "modelname", "modelid"),
    "category": ("category", "topic", "group"),
    "tags": ("tags", "labels"),
}  # fmt: skip
UNITLESS: Final = frozenset(
    {"latency", "duration", "elapsed", "time", "responsetime", "executiontime", "inferencetime"}
)
TEXT_FIELDS: Final = ("expected", "output", "input")
SCORE_FIELD: Final = re.compile(r"scores\[(.+)\]")
NUMBER_FIELDS: Final = frozenset(
    {"trial", "latencyMs", "latencySeconds", "cost", "inputTokens", "outputTokens"}
)
ODD_FIELDS: Final = NUMBER_FIELDS - {"trial"} | {"passed", "score"}
# Columns that may say whether an answer is right; their values decide.
VERDICTS: Final = frozenset({"verdict", "status", "result", "match", "ismatch", "outcome"})
_SEPARATORS: Final = re.compile(r"[\W_]+")


def first_alias(columns: Sequence[str], aliases: Sequence[str]) -> str | None:
    by_name = {normalize_name(column): column for column in reversed(columns)}
    return next((by_name[alias] for alias in aliases if alias in by_name), None)


def normalize_name(column: str) -> str:
    return _SEPARATORS.sub("", column.casefold())
