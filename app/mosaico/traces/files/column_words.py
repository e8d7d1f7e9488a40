"""Recognizes the columns of a table by the words of their names, in several languages; pure.

`llm_answer`, `Generated Answer`, `modelOutput` and `Modellantwort` are answers because of their words, not because
someone listed them. A word that names another kind of content, such as `tokens`, `id` or `relevancy`, outweighs them.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Final


class Certainty(IntEnum):
    """How certainly the name of a column says what it holds; ambiguous are only columns of equal certainty."""

    NONE = 0
    WEAK = 1
    STRONG = 2


# Letters that are no other letter with an accent.
_OWN_LETTERS: Final = str.maketrans(
    {"ı": "i", "ł": "l", "ø": "o", "đ": "d", "ß": "ss", "æ": "ae", "œ": "oe", "Ł": "L", "Ø": "O"}
)


def _plain(name: str) -> str:
    """A name without accents; a syllable of Korean stays one sign."""
    decomposed = unicodedata.normalize("NFKD", name.translate(_OWN_LETTERS))
    return unicodedata.normalize(
        "NFC",
        "".join(sign for sign in decomposed if not unicodedata.category(sign).startswith("M")),
    )


def word_table(words: str) -> frozenset[str]:
    """The words of a text as names have them: without case and accents."""
    return frozenset(_plain(word).casefold() for word in words.split())


# The words of an answer, of the right answer and of a question. Words of other scripts are found inside of a word, too.
ANSWER: Final = word_table(
    """
    answer answers response responses output outputs reply completion completions generation
    generations generated prediction predictions predicted pred preds hypothesis hypotheses actual
    assistant antwort antworten ausgabe vorhersage reponse reponses sortie respuesta respuestas
    salida resposta respostas saida risposta risposte antwoord antwoorden svar vastaus odpowiedz
    odpoved cevap cevabı yanit yanıt yanıtı jawaban ответ ответы відповідь απαντηση 답변 응답 출력 回答 答案 答え 答复 回复 返答 応答 输出 出力
    جواب إجابة תשובה उत्तर जवाब คำตอบ
    """
)
WEAK_ANSWER: Final = word_table(
    """
    result results candidate summary ergebnis resultat resultado risultato результат 结果 結果 결과
    """
)
_PLAIN_ANSWERS: Final = word_table(
    """
    answer answers antwort antworten reponse reponses respuesta respuestas resposta respostas risposta
    antwoord svar ответ 回答 答案 답변 جواب उत्तर คำตอบ cevap jawaban
    """
)
# Who answers; beside a noun of `PRODUCTS` it makes an answer.
AGENTS: Final = word_table(
    """
    model agent bot llm ai system chatbot rag gpt candidate final raw student modell modells modelo modele
    modello модель модели 模型 모델 generated predicted pred actual assistant agente agenten systems systeme
    sistema assistenten assistente asistente generee genere generada generado gerada gerado generata generato
    generierte generiert erzeugte modelu modelin obtenue obtenida obtida predicha prevista
    """
)
PRODUCTS: Final = word_table(
    """
    text summary translation sql code email message content patch solution choice option letter result label query
    class intent value string
    """
)
EXPECTED: Final = word_table(
    """
    expected gold golden reference references ref groundtruth truth truths target targets ideal
    correct canonical desired label best true grading accepted acceptable erwartet erwartete
    erwarteter soll forventet forventede forvantat forvantad referenz richtige korrekte attendu attendue correcte esperado esperada correcta
    referencia atteso attesa corretta verwacht verwachte oczekiwana beklenen ожидаемый ожидаемая
    эталон эталонный правильный верный очікувана 正解 正确 標準 标准 参考 期望 期待 模範 정답 기대 صحيح अपेक्षित सही เฉลย
    """
)
# Alone they name something else, such as whether an answer is correct.
_EXPECTED_BESIDE_A_NOUN: Final = frozenset(
    {"correct", "best", "true", "accepted", "acceptable", "right", "正确", "正確"}
)
_WEAK_EXPECTED: Final = frozenset({"label", "grading"})
QUESTION: Final = word_table(
    """
    question questions query prompt input inputs instruction request utterance q problem frage
    eingabe requete pregunta consulta entrada pergunta domanda vraag fraga sporgsmal pytanie soru
    pertanyaan вопрос запрос питання 質問 问题 問題 提问 输入 入力 질문 سؤال שאלה प्रश्न คำถาม
    """
)
_WEAK_QUESTION: Final = frozenset({"task", "scenario", "aufgabe", "message"})
# Parts of compounds: Modellantwort, Musterlösung.
_STEMS: Final[Mapping[str, str]] = {
    "musterlosung": "expected",
    "musterantwort": "expected",
    "referenzantwort": "expected",
    "sollantwort": "expected",
    "antwort": "answer",
    "groundtruth": "expected",
    "answerkey": "expected",
}
# Words beside those of a kind that change nothing.
_FILLERS: Final = frozenset(
    {
        *("the", "of", "text", "string", "str", "value", "content", "user", "my", "chat"),
        *("short", "long", "full", "sample", "ground", "standard", "from", "by", "json"),
        *("gegebene", "texte", "texto", "testo", "der", "la", "le", "del", "de", "des"),
        *("du", "do", "da", "vom", "von", "dem", "di", "della", "dello", "van", "het"),
    }
)
# Columns with one of these words hold something about an answer or a question, and no text of it.
_OTHER: Final = frozenset(
    {
        *(
            "id",
            "ids",
            "uid",
            "uuid",
            "name",
            "type",
            "types",
            "version",
            "tokens",
            "token",
            "count",
        ),
        *("time", "latency", "ms", "sec", "seconds", "cost", "usd", "price", "score", "scores"),
        *(
            "rating",
            "length",
            "len",
            "chars",
            "words",
            "index",
            "idx",
            "hash",
            "url",
            "uri",
            "date",
        ),
        *("timestamp", "status", "error", "errors", "reason", "reasons", "reasoning", "rationale"),
        *("explanation", "justification", "confidence", "logprob", "logprobs", "probability"),
        *("relevance", "relevancy", "correctness", "similarity", "faithfulness", "quality"),
        *("accuracy", "valid", "format", "language", "lang", "source", "sources", "context"),
        *("contexts", "tools", "tool", "called", "calls", "call", "keyword", "keywords"),
        *("embedding", "category", "tag", "tags", "metadata", "schema", "criteria", "guidelines"),
        *("facts", "threshold", "weight", "is", "has", "num", "number", "rank", "feedback"),
        *("documents", "document", "docs", "doc", "chunks", "chunk", "retrieved", "groundedness"),
        *("precision", "recall", "match", "passed", "verdict", "grade", "judge", "judgement"),
        *("evaluation", "evaluator", "metric", "metrics", "annotator", "generator", "options"),
        *("role", "model2", "provider", "temperature", "seed", "config", "parameters", "preview"),
    }
)
SCORE: Final = word_table(
    """
    score scores rating ratings grade quality accuracy acc correct correctness relevance relevancy
    relevant faithfulness faithful em precision recall f1 f2 exact match bleu rouge rouge1 rouge2
    rougel rougelsum meteor chrf gleu bertscore similarity coherence groundedness grounded fluency
    helpfulness helpful harmfulness harmlessness harmful toxicity toxic bias hallucination
    hallucinations completeness conciseness clarity consistency reward preference win success pass
    passed resolved solved perplexity loss wer cer ter mcc ndcg mrr hit overall judge judgment
    judgement verdict feedback eval evaluation metric adherence factuality sensitivity safety
    politeness tone empathy usefulness satisfaction misuse violence stereotyping unfairness brier
    distance percentage note bewertung punkte puntuacion calificacion pontuacao punteggio оценка 评分
    得分 スコア 評価 점수
    """
)
# Positions, IDs, times, amounts, counts, settings and properties: numbers that judge nothing.
NOT_A_SCORE: Final = frozenset(
    {
        *("id", "ids", "uid", "uuid", "index", "idx", "position", "rank", "row", "rows", "line"),
        *("number", "num", "no", "nr", "turn", "turns", "step", "steps", "epoch", "trial", "seed"),
        *("run", "runs", "repetition", "attempt", "attempts", "retries", "iteration", "round"),
        *("time", "timestamp", "tstamp", "ts", "date", "day", "year", "created", "updated"),
        *("hour", "hours", "minute", "minutes", "month", "week", "weekday", "quarter"),
        *("latency", "duration", "elapsed", "seconds", "sec", "secs", "ms", "millis", "token"),
        *("tokens", "count", "counts", "total", "cost", "costs", "price", "usd", "length", "len"),
        *("chars", "characters", "words", "sentences", "size", "bytes", "version", "threshold"),
        *("weight", "max", "min", "limit", "k", "n", "temperature", "top", "page", "port"),
        *("bookmarked", "public", "strict", "mode", "enabled", "cached", "stream", "confidence"),
        *("logprob", "logprobs", "probability", "std", "stderr", "stdev", "variance", "level"),
        *(
            "age",
            "phone",
            "zip",
            "unnamed",
            "instances",
            "samples",
            "items",
            "examples",
            "questions",
        ),
    }
) | word_table(
    """
    kosten coste costo costos custo custos cout couts prix preis precio preco prezzo стоимость цена 费用 成本 費用 価格
    비용 laufzeit dauer zeit antwortzeit latenz latence latencia latenza duree duracion duracao durata tiempo tempo temps
    время 耗时 延迟 时间 時間 시간 nummer numero zeile ligne fila linha riga номер 编号 序号 番号 行号 번호 anzahl
    cantidad quantidade 数量 wahrscheinlichkeit probabilidad probabilidade probabilite 概率 置信度 datum fecha 日期
    temperatur temperatura gewicht peso poids identifiant kennung
    """
)
_EXPLANATIONS: Final = frozenset(
    {
        *(
            "reason",
            "reasons",
            "reasoning",
            "rationale",
            "explanation",
            "justification",
            "feedback",
            "comment",
        ),
        *(
            "comments",
            "text",
            "model",
            "prompt",
            "name",
            "type",
            "begrundung",
            "kommentar",
            "comentario",
        ),
    }
)
# Members of the object of a tool stand in columns such as `outputs.answer`, `inputs.question`, `reference.answer`.
_HEADS: Final[Mapping[str, str]] = {
    "inputs": "input", "input": "input", "outputs": "output", "output": "output",
    "reference": "expected", "referenceoutputs": "expected", "referenceoutput": "expected",
    "expected": "expected", "expectations": "expected", "datasourceitem": "row", "sample": "row",
    "row": "row", "data": "row", "item": "row",
}  # fmt: skip
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+|[^\W\d_A-Za-z]+")
_NUMBER_SIGN: Final = re.compile(r"#\s*$")
_LAST_LATIN: Final = "\u024f"


def words_of(name: str) -> tuple[str, ...]:
    """The words of a name, without case and accents: `modelOutput`, `Model Output`, `model_output`. `Question #` is the
    number of a question.
    """
    return tuple(
        word.casefold() for word in _WORD.findall(_plain(_NUMBER_SIGN.sub(" number", name)))
    )


@lru_cache(maxsize=4096)
def certainty_of(column: str, field: str) -> Certainty:
    """How certainly a column holds the `output`, `expected` or `input`."""
    head, tail = _split(column)
    if head is not None:
        return _certainty_of_member(head, tail, field)
    return _certainty(words_of(column), field)


def is_plain_answer(column: str) -> bool:
    """Return whether a name says `answer` and not whose: beside another output it is the expected one."""
    words = [word for word in words_of(column) if word not in _FILLERS and not word.isdecimal()]
    return len(words) == 1 and words[0] in _PLAIN_ANSWERS


def names_a_score(column: str) -> bool:
    """Return whether the name of a column of numbers says that they judge an answer."""
    words = words_of(column)
    return any(_has(word, SCORE) for word in words) and not names_no_score(column)


def names_a_judgment(column: str) -> bool:
    """Return whether a name says that a column judges an answer, and does not explain it."""
    return names_a_score(column) and _EXPLANATIONS.isdisjoint(words_of(column))


def names_no_score(column: str) -> bool:
    """Return whether the name says that the numbers judge nothing: a position, a time, a count."""
    return any(_has(word, NOT_A_SCORE) for word in words_of(column))


def most_certain(columns: Iterable[str], field: str) -> list[str]:
    """The columns that hold a field with the highest certainty; several are ambiguous."""
    ranked = [(certainty_of(column, field), column) for column in columns]
    best = max((certainty for certainty, _ in ranked), default=Certainty.NONE)
    if best is Certainty.NONE:
        return []
    return [column for certainty, column in ranked if certainty is best]


def _split(column: str) -> tuple[str | None, str]:
    head, dot, tail = column.partition(".")
    kind = _HEADS.get(re.sub(r"[\W_]+", "", head).casefold()) if dot and tail else None
    return kind, tail


def _certainty_of_member(head: str, tail: str, field: str) -> Certainty:
    words = words_of(tail.rpartition(".")[2])
    if any(word in _OTHER for word in words_of(tail)):
        return Certainty.NONE
    if head == "expected":
        return Certainty.STRONG if field == "expected" else Certainty.NONE
    certainty = _certainty(words, field)
    is_named = any(_certainty(words, name) for name in ("output", "expected", "input"))
    if certainty and not (head == "input" and field == "output"):
        return certainty
    if certainty:  # an answer that was uploaded with its question
        return Certainty.WEAK
    is_of_head = (head, field) in {("output", "output"), ("input", "input")}
    return Certainty.WEAK if is_of_head and not is_named else Certainty.NONE


def _certainty(words: Sequence[str], field: str) -> Certainty:
    if not words or any(word in _OTHER or _asks_whether(word) for word in words):
        return Certainty.NONE
    is_expected = _is_expected(words)
    match field:
        case "expected":
            if not is_expected:
                return Certainty.NONE
            is_weak = all(
                word in _WEAK_EXPECTED or word in _FILLERS or word == "notes" for word in words
            )
            return Certainty.WEAK if is_weak else Certainty.STRONG
        case "input":
            return Certainty.NONE if is_expected else _question_certainty(words)
        case _:
            return Certainty.NONE if is_expected else _answer_certainty(words)


def _is_expected(words: Sequence[str]) -> bool:
    if _stem(words) == "expected" or ("ground" in words and "truth" in words):
        return True
    marks = [word for word in words if _has(word, EXPECTED)]
    if not marks:
        return False
    others = [word for word in words if word not in marks]
    if all(mark in _WEAK_EXPECTED for mark in marks) and any(word in AGENTS for word in others):
        return False  # predicted_label
    if all(mark in _EXPECTED_BESIDE_A_NOUN for mark in marks):
        return any(_has(word, ANSWER) or word in PRODUCTS for word in others)
    known = ANSWER | WEAK_ANSWER | PRODUCTS | _FILLERS | {"notes"}
    return all(_has(word, known) or word.isdecimal() for word in others)


def _answer_certainty(words: Sequence[str]) -> Certainty:
    known = ANSWER | WEAK_ANSWER | AGENTS | PRODUCTS | _FILLERS
    if not all(_has(word, known) or _is_numbering(word) or _stem([word]) for word in words):
        # `generated_email` names what was made in any words, `claude_response` who answered.
        is_made = words[0] in {"generated", "predicted", "pred"} or words[-1] in ANSWER
        is_question = any(_has(word, QUESTION) for word in words)
        return Certainty.STRONG if is_made and not is_question else Certainty.NONE
    if "raw" in words:
        return Certainty.WEAK
    if any(_has(word, ANSWER) for word in words) or _stem(words) == "answer":
        return Certainty.STRONG
    agents = [word for word in words if word in AGENTS]
    products = [word for word in words if word in PRODUCTS and word not in AGENTS]
    if agents and products:
        return Certainty.STRONG
    return Certainty.WEAK if any(_has(word, WEAK_ANSWER) for word in words) else Certainty.NONE


def _question_certainty(words: Sequence[str]) -> Certainty:
    if any(_has(word, ANSWER | WEAK_ANSWER) for word in words) or "system" in words:
        return Certainty.NONE
    if not all(_has(word, QUESTION | _WEAK_QUESTION | _FILLERS) for word in words):
        return Certainty.NONE
    if any(_has(word, QUESTION) for word in words):
        return Certainty.STRONG
    return Certainty.WEAK if any(word in _WEAK_QUESTION for word in words) else Certainty.NONE


def _has(word: str, words: frozenset[str]) -> bool:
    """Return whether a word is among others; scripts without blanks write several words as one."""
    if word in words:
        return True
    return (
        bool(word)
        and word[0] > _LAST_LATIN
        and any(part in word for part in words if part[0] > _LAST_LATIN)
    )


def _asks_whether(word: str) -> bool:
    """Return whether a word of Chinese, Japanese or Korean asks whether something is so: 是否正确, 정답여부."""
    return any(mark in word for mark in ("是否", "여부", "かどうか"))


def _is_numbering(word: str) -> bool:
    """Return whether a word counts columns: answer_1, answer_b."""
    return word.isdecimal() or (len(word) == 1 and word.isascii())


def _stem(words: Sequence[str]) -> str | None:
    joined = "".join(words)
    # Of a compound the last part says what it is: Antwortzeit is a time.
    endings = tuple(joined.removesuffix(ending) for ending in ("", "en", "text", "texte"))
    return next(
        (kind for stem, kind in _STEMS.items() if any(e.endswith(stem) for e in endings)), None
    )
