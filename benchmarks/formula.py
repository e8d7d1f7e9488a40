"""K1: a compiled KPI compared with a hand-written lambda and two evaluators.

The peers get their formula parsed beforehand; only the evaluation is timed.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import asteval
import simpleeval

from benchmarks.result_rows import BenchRow, interleave
from mosaico.formula import Reference, compile_formula

ROUNDS = 200_000
PEER_ROUNDS = 5_000
GOAL = 1.5
VALUES = {"ROUGE": 0.42, "BLEU": 0.17, "F1_SCORE": 0.63}


class Case(NamedTuple):
    """A formula, the equivalent lambda, and the equivalent Python expression."""

    text: str
    by_hand: Callable[..., float]
    expression: str


CASES = (
    Case(
        "WEIGHTED_SUM(ROUGE:0.5, BLEU:0.3, F1_SCORE:0.2)",
        lambda rouge, bleu, f1: rouge * 0.5 + bleu * 0.3 + f1 * 0.2,
        "ROUGE * 0.5 + BLEU * 0.3 + F1_SCORE * 0.2",
    ),
    Case(
        "IF ROUGE > 0.5 AND BLEU >= 0.1 THEN ROUGE ELSE (BLEU + F1_SCORE) / 2",
        lambda rouge, bleu, f1: rouge if rouge > 0.5 and bleu >= 0.1 else (bleu + f1) / 2.0,
        "ROUGE if ROUGE > 0.5 and BLEU >= 0.1 else (BLEU + F1_SCORE) / 2",
    ),
)


def measure() -> Iterator[BenchRow]:
    """One row per formula for the lambda, and one per evaluator."""
    for case in CASES:
        yield _beside_lambda(case)
        yield _beside("simpleeval", _simpleeval(case.expression), case)
        yield _beside("asteval", _asteval(case.expression), case)


def _beside_lambda(case: Case) -> BenchRow:
    ours, by_hand = compile_formula(case.text).function, case.by_hand
    values = tuple(VALUES.values())
    assert ours(*values) == by_hand(*values)
    timed = interleave(_called(ours, ROUNDS), _called(by_hand, ROUNDS))
    ratio = timed.ours_seconds / timed.peer_seconds
    nanoseconds = timed.ours_seconds / ROUNDS * 1e9
    return BenchRow(
        name=f"K1 {case.text}",
        goal=f"≤ {GOAL}× a lambda",
        ratio=ratio,
        holds=ratio <= GOAL,
        note=f"{nanoseconds:.0f} ns per evaluation",
    )


def _beside(peer: str, evaluate: Callable[[], object], case: Case) -> BenchRow:
    ours, (rouge, bleu, f1) = compile_formula(case.text).function, VALUES.values()
    assert ours(rouge, bleu, f1) == evaluate()
    timed = interleave(
        _repeated(lambda: ours(rouge, bleu, f1), PEER_ROUNDS), _repeated(evaluate, PEER_ROUNDS)
    )
    ratio = timed.peer_seconds / timed.ours_seconds
    return BenchRow(
        name=f"K1 against {peer}",
        goal="faster",
        ratio=ratio,
        holds=ratio > 1.0,
        note=f"{_evaluate_seconds(case) * 1e6:.2f} µs with the check for missing values",
    )


def _evaluate_seconds(case: Case) -> float:
    formula = compile_formula(case.text)
    values = {Reference(key, "mean"): value for key, value in VALUES.items()}
    work = _repeated(lambda: formula.evaluate(values), PEER_ROUNDS)
    # Without a peer: only the way of timing is that of the other rows.
    return interleave(work, work).ours_seconds / PEER_ROUNDS


def _called(function: Callable[..., float], rounds: int) -> Callable[[], None]:
    rouge, bleu, f1 = VALUES.values()

    def work() -> None:
        for _ in range(rounds):
            function(rouge, bleu, f1)

    return work


def _repeated(evaluate: Callable[[], object], rounds: int) -> Callable[[], None]:
    def work() -> None:
        for _ in range(rounds):
            evaluate()

    return work


def _simpleeval(expression: str) -> Callable[[], object]:
    evaluator = simpleeval.SimpleEval(names=dict(VALUES))
    parsed = evaluator.parse(expression)
    return lambda: evaluator.eval(expression, previously_parsed=parsed)


def _asteval(expression: str) -> Callable[[], object]:
    interpreter = asteval.Interpreter(usersyms=dict(VALUES))
    parsed = interpreter.parse(expression)
    return lambda: interpreter.run(parsed)
