"""Columns of latencies, tokens, costs and IDs by the words of their names; pure.

All words of a name must belong to one kind: `total_latency_ms` is the latency, `judge_latency_ms` another one.
"""

from collections.abc import Sequence
from typing import Final

from mosaico.traces.files.column_vocabulary import word_table
from mosaico.traces.files.column_words import words_of

_LATENCY: Final = word_table(
    """
    latency latencies duration elapsed runtime walltime laufzeit dauer antwortzeit latenz latence latencia latenza
    duree duracion duracao durata 耗时 延迟
    """
)
_TIME: Final = word_table("time zeit temps tiempo tempo 时间 時間")
_BESIDE_TIME: Final = word_table(
    """
    response execution inference processing generation wall clock run taken e2e total overall request llm model
    agent api in the of answer reponse respuesta resposta ejecucion execucao execution
    """
)
_MILLISECONDS: Final = word_table(
    "ms msec msecs millis millisecond milliseconds millisekunden milisegundos 毫秒"
)
_SECONDS: Final = word_table("s sec secs second seconds sekunden secondes segundos 秒")
_TOKEN: Final = word_table("token tokens jetons 令牌")
_BESIDE_TOKENS: Final = word_table("count counts num number n of total usage llm model agent used")
_IN: Final = word_table("input prompt in eingabe entree entrada")
_OUT: Final = word_table(
    "output completion out response generated generation ausgabe sortie salida saida"
)
_COST: Final = word_table("cost costs kosten coste costo custo cout 费用 成本 費用")
_BESIDE_COST: Final = word_table(
    "usd dollar dollars total llm model agent api run in of the request"
)
_ID: Final = word_table("id ids identifier identifiant kennung 编号 番号 번호 номер")
_ITEM: Final = word_table(
    """
    item question query prompt case test example sample record row data dataset task instance problem q eval
    frage fall aufgabe beispiel pregunta caso pergunta exemple cas 问题 題 질문
    """
)


def latency_unit(column: str) -> str | None:
    """The field of a latency, `latencyMs` or `latencySeconds`; empty without a unit, None for another column."""
    words = words_of(column)
    milliseconds = [word for word in words if word in _MILLISECONDS]
    seconds = [word for word in words if word in _SECONDS]
    rest = [word for word in words if word not in _MILLISECONDS | _SECONDS]
    if not _is_of(rest, _LATENCY | _TIME, _BESIDE_TIME):
        return None
    if not (milliseconds or seconds):
        return ""
    if milliseconds and seconds:
        return None
    return "latencyMs" if milliseconds else "latencySeconds"


def measured_field(column: str) -> str | None:
    """The field of a column of latencies with a unit, of tokens, of costs or of IDs of items; None for another."""
    words = words_of(column)
    if latency_unit(column):
        return latency_unit(column)
    if any(word in _TOKEN for word in words):
        sides = [word for word in words if word not in _TOKEN]
        for field, names in (("inputTokens", _IN), ("outputTokens", _OUT)):
            if _is_of(sides, names, _BESIDE_TOKENS):
                return field
        return None
    if _is_of(words, _COST, _BESIDE_COST):
        return "cost"
    return "item" if _is_of(words, _ID, _ITEM) else None


def _is_of(words: Sequence[str], names: frozenset[str], others: frozenset[str]) -> bool:
    return any(word in names for word in words) and all(word in names | others for word in words)
