"""Small data sets of all kinds, each with its verdict and what decides it."""

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, NamedTuple

from tests.support.service import JSON

ITEMS = 40
LABELS = ("refund", "delivery", "other")
REFUSAL = "I am sorry, but I cannot answer this question for you today"
# Metrics as a benchmark lists them.
WORK = ("STATUS", "LATENCY_MS", "JSON_VALID")
OF_ANSWERS = (
    "ACCURACY", "EXACT_MATCH", "CONTAINS", "F1_SCORE", "ROUGE", "CHRF", "BLEU", "EDIT_SIMILARITY",
)  # fmt: skip


class DecidedData(NamedTuple):
    """Results before and after; `better` is what the user said of a score, `about` the question that decides."""

    before: list[JSON]
    after: list[JSON]
    verdict: str
    metric: str | None = None
    better: Mapping[str, str] = {}
    about: str = "POPULATION"

    @property
    def metrics(self) -> list[str | JSON]:
        """The metrics of a benchmark for this data."""
        first = self.before[0]
        scores = first.get("scores") or {}
        own = [name for name in scores if name.startswith("TASK_")]
        named = [
            {"key": "SCORE", "options": {"name": name} | self._option(name)}
            for name in scores
            if name not in own
        ]
        return [*WORK, *(OF_ANSWERS if "expectedOutput" in first else ()), *own, *named]

    def _option(self, name: str) -> JSON:
        return {"better": self.better[name]} if name in self.better else {}


def _rows(**columns: Any) -> list[JSON]:
    """One result for each item; a function of the number of the item, or a value, for each field."""
    return [
        {"traceId": f"t{number}", "itemId": f"q{number:02d}", "input": f"question {number}"}
        | {name: value(number) if callable(value) else value for name, value in columns.items()}
        for number in range(ITEMS)
    ]


_NIGHTS = count(1)


def _scored(**scores: Any) -> list[JSON]:
    # Each run answers in other words: scores of equal answers would be those of a drifting judge.
    night = next(_NIGHTS)
    return _rows(
        output=lambda number: f"answer {night} to question {number}",
        scores=lambda number: {name: value(number) for name, value in scores.items()},
    )


def _level(level: float, step: float = 0.01) -> Any:
    """Values around a level, which differ by item."""
    return lambda number: round(level + step * (number % 7 - 3), 3)


def _label(number: int) -> str:
    return LABELS[number % 3]


def _labeled(wrong: int, answer: str = "{}") -> list[JSON]:
    def output(number: int) -> str:
        return answer.format(LABELS[(number + 1) % 3] if number < wrong else _label(number))

    return _rows(expectedOutput=_label, output=output)


def _gold(number: int) -> str:
    return f"To return article {number}, open your orders, choose the article and print the label"


def _texts(refused: int, verbatim: int = 0, more: str = " at home") -> list[JSON]:
    def output(number: int) -> str:
        if number >= ITEMS - refused:
            return REFUSAL
        return _gold(number) if number < verbatim else _gold(number) + more

    return _rows(expectedOutput=_gold, output=output)


def _translated(gold: str, refusal: str, refused: int) -> list[JSON]:
    """Answers with one more sign at their end; the last ones are refusals."""
    return _rows(
        expectedOutput=gold.format,
        output=lambda number: refusal if number >= ITEMS - refused else gold.format(number) + "!",
    )


RUSSIAN = (
    "Чтобы вернуть товар {}, откройте раздел заказов и нажмите кнопку",
    "Извините, я не могу",
)
# Some words of a-z: ROUGE would compare nothing else.
JAPANESE = ("設定ページのGPTメニューから言語とAPIキーを変更できます。第{}項", "お答えできません")
CHINESE_ANSWER = "请在设置页面中更改您的语言"


def _plain(failed: int = 0) -> list[JSON]:
    rows = _rows(output="an answer", latencyMs=100.0)
    for row in rows[:failed]:
        row |= {"output": None, "outcome": "agent_error"}
    return rows


def _tried(passed: Callable[[int], int], trials: int = 5, items: int = 10) -> list[JSON]:
    """Several trials of each item, of which so many pass."""
    return [
        {"traceId": f"t{number}-{trial}", "itemId": f"q{number:02d}", "trial": trial, "input": f"question {number}",
         "output": f"answer {trial}", "scores": {"TASK_PASSED": float(trial < passed(number))}}
        for number in range(items)
        for trial in range(trials)
    ]  # fmt: skip


def _broken(count: int, trials: int) -> Callable[[int], int]:
    return lambda number: 0 if number < count else trials


def _passed(count: int, **scores: Any) -> list[JSON]:
    return _scored(TASK_PASSED=lambda number: float(number < count), **scores)


FAITHFUL, CORRECT, TONE = 'SCORE["faithfulness"]', 'SCORE["correctness"]', 'SCORE["tone"]'
DATA = {
    "ragas-falls": DecidedData(
        _scored(faithfulness=_level(0.93), answer_relevancy=_level(0.8)),
        _scored(faithfulness=_level(0.23), answer_relevancy=_level(0.8)),
        "REGRESSED", FAITHFUL,
    ),
    "ragas-second-falls": DecidedData(
        _scored(answer_relevancy=_level(0.8), faithfulness=_level(0.93)),
        _scored(answer_relevancy=_level(0.85), faithfulness=_level(0.23)),
        "REGRESSED", FAITHFUL,
    ),
    "judge-falls": DecidedData(
        _scored(correctness=_level(4.5, 0.1)), _scored(correctness=_level(1.5, 0.1)), "REGRESSED", CORRECT
    ),
    "judge-rises": DecidedData(
        _scored(correctness=_level(1.5, 0.1)), _scored(correctness=_level(4.5, 0.1)), "IMPROVED", CORRECT
    ),
    "toxicity-rises": DecidedData(
        _scored(toxicity=_level(0.1)), _scored(toxicity=_level(0.6)), "REGRESSED", 'SCORE["toxicity"]'
    ),
    "reward-falls": DecidedData(
        _scored(reward=lambda number: float(number % 4 > 0)),
        _scored(reward=lambda number: float(number % 4 > 2)),
        "REGRESSED", 'SCORE["reward"]',
    ),
    "same-scores": DecidedData(
        _scored(faithfulness=_level(0.9)), _scored(faithfulness=_level(0.9)), "NO_EVIDENCE", FAITHFUL
    ),
    "unknown-direction": DecidedData(
        _scored(tone=_level(0.3)), _scored(tone=_level(0.7)), "CHANGED", TONE
    ),
    "hallucination": DecidedData(
        _scored(hallucination=_level(0.7)), _scored(hallucination=_level(0.1)),
        "CHANGED", 'SCORE["hallucination"]',
    ),
    "direction-of-user-high": DecidedData(
        _scored(tone=_level(0.3)), _scored(tone=_level(0.7)), "IMPROVED", TONE, {"tone": "higher"}
    ),
    "direction-of-user-low": DecidedData(
        _scored(tone=_level(0.3)), _scored(tone=_level(0.7)), "REGRESSED", TONE, {"tone": "lower"}
    ),
    "passed-falls": DecidedData(_passed(36), _passed(20), "REGRESSED", "TASK_PASSED"),
    "passed-same-score-falls": DecidedData(
        _passed(30, faithfulness=_level(0.9)), _passed(30, faithfulness=_level(0.4)), "REGRESSED", FAITHFUL
    ),
    "tasks-break": DecidedData(
        _tried(_broken(0, 5)), _tried(_broken(4, 5)), "REGRESSED", "TASK_PASSED", about="TASKS"
    ),
    "few-of-many-tasks-break": DecidedData(
        _tried(_broken(0, 10), 10, 37), _tried(_broken(4, 10), 10, 37),
        "REGRESSED", "TASK_PASSED", about="TASKS",
    ),
    "tasks-are-repaired": DecidedData(
        _tried(_broken(4, 5)), _tried(_broken(0, 5)), "IMPROVED", "TASK_PASSED", about="TASKS"
    ),
    "trials-differ-by-chance": DecidedData(
        _tried(lambda number: 3 + number % 2), _tried(lambda number: 4 - number % 2),
        "INCONCLUSIVE", "TASK_PASSED", about="TASKS",
    ),
    "labels-fall": DecidedData(_labeled(2), _labeled(16), "REGRESSED", "ACCURACY"),
    "labels-in-sentences-fall": DecidedData(
        _labeled(2, "It is about {} I think"), _labeled(16, "It is about {} I think"),
        "REGRESSED", "CONTAINS",
    ),
    "texts-fall": DecidedData(_texts(1), _texts(17), "REGRESSED", "ROUGE"),
    "texts-sometimes-verbatim-fall": DecidedData(
        _texts(1, verbatim=8), _texts(17, verbatim=9), "REGRESSED", "ROUGE"
    ),
    "texts-better": DecidedData(_texts(17), _texts(1), "IMPROVED", "ROUGE"),
    "russian-texts-fall": DecidedData(
        _translated(*RUSSIAN, refused=1), _translated(*RUSSIAN, refused=17), "REGRESSED", "CHRF"
    ),
    "japanese-texts-fall": DecidedData(
        _translated(*JAPANESE, refused=1), _translated(*JAPANESE, refused=17), "REGRESSED", "CHRF"
    ),
    "english-answered-in-chinese": DecidedData(
        _texts(1),
        _rows(expectedOutput=_gold, output=CHINESE_ANSWER),
        "REGRESSED", "ROUGE",
    ),
    "nothing-measured": DecidedData(_plain(), _plain(), "NOT_MEASURED"),
    "counters-only": DecidedData(
        _scored(answer_length=_level(100, 1), num_sources=_level(3, 1)),
        _scored(answer_length=_level(300, 1), num_sources=_level(9, 1)),
        "NOT_MEASURED",
    ),
    "more-answers-fail": DecidedData(_plain(), _plain(failed=12), "REGRESSED", "STATUS"),
}  # fmt: skip
