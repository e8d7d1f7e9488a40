"""The fields of a table of results, and the names of the columns that hold them; pure.

Columns of texts are recognized by their words (`column_words`).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from mosaico.traces.object_text import normalize_name

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
    "error": (
        "error", "errormessage", "errormsg", "errortext", "exception", "fehler", "fehlermeldung", "erreur", "iserror",
        "haserror",
    ),
    "status": (
        "status", "state", "runstatus", "callstatus", "statuscode", "httpstatus", "httpstatuscode", "httpcode",
    ),
    "passed": (
        "passed", "pass", "passfail", "success", "correct", "iscorrect", "taskpassed", "resolved", "isresolved",
        "bestanden", "korrekt", "richtig", "réussi", "correcto", "correto", "aprobado", "aprovado",
        "corretto", "superato", "goed", "juist", "poprawna", "poprawny", "poprawnie", "doğru", "верно", "правильно", "通过", "是否通过", "是否正确", "正确", "合格", "正誤", "合否", "통과",
        "정답여부", "통과여부",
    ),
    "score": ("score", "taskscore", "grade"),
    "scores": ("scores", "evaluations"),
    "latencyMs": ("latencyms", "durationms", "elapsedms"),
    "latencySeconds": ("latencys", "latencysec", "durations", "seconds"),
    "cost": ("costusd", "cost", "totalcost", "priceusd", "usd"),
    "inputTokens": ("inputtokens", "prompttokens", "tokensin"),
    "outputTokens": ("outputtokens", "completiontokens", "tokensout"),
    "model": ("model", "modelname", "modelid", "modelnameorpath"),
    "category": ("category", "topic", "group"),
    "tags": ("tags", "labels"),
}  # fmt: skip
TEXT_FIELDS: Final = ("expected", "output", "input")
SCORE_FIELD: Final = re.compile(r"scores\[(.+)\]")
NUMBER_FIELDS: Final = frozenset(
    {"trial", "latencyMs", "latencySeconds", "cost", "inputTokens", "outputTokens"}
)
ODD_FIELDS: Final = NUMBER_FIELDS - {"trial"} | {"passed", "score"}
# A table with a row for each metric of an item names it in one of these columns.
METRIC_NAMES: Final = (
    "metric", "metricname", "metrickey", "evaluator", "evaluatorname", "scorer", "scorername", "criterion",
    "evalname", "evaluationname", "scorename", "feedbackkey",
)  # fmt: skip
# Texts that an agent works on, where nothing is named like a question.
SOURCE_NAMES: Final = (
    "text",
    "source",
    "sourcetext",
    "src",
    "article",
    "document",
    "passage",
    "sentence",
    "review",
)
TURN_NAMES: Final = ("turn", "turnid", "turnindex", "turnnumber")
# What a row of sums below a table has in place of an ID.
SUMMARY_NAMES: Final = frozenset(
    {
        *("mean", "average", "avg", "total", "sum", "overall", "median", "std", "stdev", "summary"),
        *(
            "mittelwert",
            "durchschnitt",
            "summe",
            "gesamt",
            "moyenne",
            "media",
            "promedio",
            "média",
            "平均",
            "合计",
            "总计",
        ),
        *("平均值", "合計", "평균"),
    }
)
# Words of a column of states; only `FAILED` ones say something about an answer.
FAILED: Final = frozenset(
    {"error", "errored", "exception", "crashed", "timeout", "timed out", "timed_out"}
)
# Beside an error they are another one; beside a success they may say that the task is not solved.
FAILED_OR_UNSOLVED: Final = frozenset({"failed", "failure", "fail"})
STATES: Final = FAILED | {"ok", "success", "succeeded", "completed", "complete", "done", "finished"}
# Words of a column of states that may say whether a call ended, or whether the task is solved.
SUCCEEDED: Final = frozenset({"success", "succeeded", "successful"})
UNSUCCESSFUL: Final = frozenset({"failed", "failure", "fail", "unsuccessful"})
# Columns that may say whether an answer is right; their values decide.
VERDICTS: Final = frozenset({"verdict", "status", "result", "match", "ismatch", "outcome"})


def first_alias(columns: Sequence[str], aliases: Sequence[str]) -> str | None:
    by_name = {normalize_name(column): column for column in reversed(columns)}
    return next((by_name[alias] for alias in aliases if alias in by_name), None)
