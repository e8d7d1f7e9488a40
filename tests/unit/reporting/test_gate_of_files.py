"""`mosaico gate` on small files in many shapes: which change fails it, which one passes, and what it cannot decide."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from typer.testing import CliRunner

from mosaico.gating.cli import cli

Rows = Sequence[Mapping[str, Any]]
PASSED, REGRESSED, UNDECIDED, INVALID = 0, 1, 0, 3


class GateCase(NamedTuple):
    """Two files of results, the exit code, and a word of the first line; `options` are those of the command."""

    base: Any
    candidate: Any
    exit_code: int
    word: str
    options: tuple[str, ...] = ()


def scored(*scores: float, name: str = "score") -> Rows:
    return [{"id": f"i{n}", "input": f"q{n}", "output": "x", name: s} for n, s in enumerate(scores)]


def answered(*answers: str, expected: str, name: str = "output") -> Rows:
    return [
        {"id": f"i{n}", "input": f"q{n}", "expected": f"{expected} {n}", name: answer.format(n)}
        for n, answer in enumerate(answers)
    ]


def promptfoo(*outcomes: tuple[str, bool]) -> Any:
    """The results of providers, by position of their column."""
    results = [
        {
            "promptIdx": column, "testCase": {}, "vars": {"q": str(n)}, "provider": {"id": provider},
            "prompt": {"raw": "p", "label": "p"}, "response": {"output": "x"}, "success": is_right,
            "score": float(is_right), "failureReason": 0 if is_right else 1,
        }
        for column, (provider, is_right) in enumerate(outcomes)
        for n in range(20)
    ]  # fmt: skip
    return {"results": {"version": 3, "results": results}}


def tau(*rewards: float) -> Rows:
    return [
        {"task_id": n, "trial": 0, "reward": reward, "info": {}, "traj": [{"role": "user", "content": "q"}]}
        for n, reward in enumerate(rewards)
    ]  # fmt: skip


JAPANESE: Final = "東京から大阪までは新幹線で約二時間半かかります"
RUSSIAN: Final = "Поезд из Москвы в Казань идёт двенадцать часов"
THAI: Final = "รถไฟจากกรุงเทพไปเชียงใหม่ใช้เวลาสิบสองชั่วโมง"
REFUSALS: Final = {
    JAPANESE: "すみません、お答えできません",
    RUSSIAN: "Извините, я не знаю",
    THAI: "ขออภัย ไม่ทราบ",
}


def language(text: str) -> GateCase:
    """Answers near the expected ones, and refusals."""
    base = answered(*[f"{text} {{}}"] * 20, expected=text)
    return GateCase(base, answered(*[REFUSALS[text]] * 20, expected=text), REGRESSED, "REGRESSION")


TWO: Final = (("m-large", True), ("m-small", False))
CASES: Final[Mapping[str, GateCase]] = {
    "the same file": GateCase(scored(*[0.1, 0.5, 0.9] * 10), scored(*[0.1, 0.5, 0.9] * 10), PASSED, "PASS"),
    "one item": GateCase(scored(1), scored(0), UNDECIDED, "INCONCLUSIVE"),
    "two items": GateCase(scored(1, 1), scored(0, 0), UNDECIDED, "INCONCLUSIVE"),
    "three equal steps": GateCase(scored(*[0.8] * 3), scored(*[0.4] * 3), UNDECIDED, "INCONCLUSIVE"),
    "six flips": GateCase(scored(*[1] * 6), scored(*[0] * 6), REGRESSED, "REGRESSION"),
    "a score from 1 to 5 falls": GateCase(
        scored(*[4, 5] * 10, name="correctness"), scored(*[1, 2] * 10, name="correctness"), REGRESSED, "REGRESSION",
    ),
    "a score from 1 to 5 rises": GateCase(
        scored(*[1, 2] * 10, name="correctness"), scored(*[4, 5] * 10, name="correctness"), PASSED, "PASS",
    ),
    "flipped labels of an unknown name": GateCase(
        [{"id": n, "label": "yes", "judged": "yes"} for n in range(20)],
        [{"id": n, "label": "yes", "judged": "yes" if n % 2 else "no"} for n in range(20)],
        REGRESSED,
        "REGRESSION",
    ),
    "shares of an unknown name do not decide": GateCase(
        [{**row, "discount": 0.9} for row in answered(*["a {}"] * 20, expected="a")],
        [{**row, "discount": 0.1} for row in answered(*["a {}"] * 20, expected="a")],
        PASSED,
        "PASS",
    ),
    "columns of promptfoo in another order": GateCase(
        promptfoo(*TWO), promptfoo(*reversed(TWO)), PASSED, "PASS",
    ),
    "one provider of promptfoo": GateCase(promptfoo(*TWO), promptfoo(TWO[1]), PASSED, "PASS"),
    "rewards of tau-bench": GateCase(tau(*[1] * 20), tau(*[0, 1] * 10), REGRESSED, "REGRESSION"),
    "errors in place of answers": GateCase(
        answered(*["a {}"] * 20, expected="a"),
        [{**row, "output": {"error": "KeyError: 'x'"}} for row in answered(*["a {}"] * 20, expected="a")],
        REGRESSED,
        "REGRESSION",
    ),
    "Japanese": language(JAPANESE),
    "Russian": language(RUSSIAN),
    "Thai": language(THAI),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_gate__decides_on_what_the_files_say(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    base, candidate = tmp_path / "base.json", tmp_path / "candidate.json"
    for path, content in ((base, case.base), (candidate, case.candidate)):
        path.write_text(json.dumps(content), encoding="utf-8")
    arguments = ["--run", str(candidate), "--baseline", str(base), *case.options]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == case.exit_code, result.output
    assert case.word in result.stdout.splitlines()[0]
