"""What users wait for, beside what they would run instead at the command line: a new process for each measurement.

The peer of `mosaico gate` is statgate, installed from PyPI into an environment of its own. That of `score` and
`compare` is the script that a team writes first: ROUGE and BLEU of each row, and a paired t-test of the means.
"""

import json
import os
import random
import resource
import subprocess
import sys
import time
import venv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from benchmarks import service_waits
from benchmarks.metrics import generated_pairs
from benchmarks.result_rows import BenchRow

ROUNDS: Final = 5
PEER_PACKAGE: Final = "statgate==0.1.1"
GATED_ITEMS: Final = 200
SHORT_ROWS: Final = 272
LONG_ROWS: Final = 10_000

SCRIPT: Final = """
import json, statistics, sys
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu import sentence_bleu

def scores(name):
    scorer = RougeScorer(["rougeL"])
    rows = [json.loads(line) for line in open(name, encoding="utf-8")]
    bleu = [sentence_bleu(row["output"], [row["expected"]], use_effective_order=True).score for row in rows]
    print(name, statistics.mean(bleu))
    return [scorer.score(row["expected"], row["output"])["rougeL"].fmeasure for row in rows]

values = [scores(name) for name in sys.argv[1:]]
print(*map(statistics.mean, values))
if len(values) > 1:
    from scipy.stats import ttest_rel
    print(ttest_rel(*values))
"""


class Cost(NamedTuple):
    """The seconds of a program, and the CPU seconds of it and its children."""

    seconds: float
    cpu_seconds: float

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s (CPU {self.cpu_seconds:.2f})"


class Wait(NamedTuple):
    """A command, what a user would run instead, and the goal: seconds, or None for those of the other program."""

    name: str
    goal_s: float | None
    command: Sequence[str]
    peer: Sequence[str]
    rounds: int = ROUNDS


def measure() -> Iterator[BenchRow]:
    """A row for each command, then those of a service."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for wait in _waits(folder, _install_peer(folder / "peer")):
            yield _row(wait, folder)
    yield from service_waits.measure()


def _install_peer(folder: Path) -> str:
    venv.create(folder, with_pip=True)
    program = str(folder / "bin/python")
    subprocess.run([program, "-m", "pip", "install", "--quiet", PEER_PACKAGE], check=True)
    return str(folder / "bin/statgate")


def _waits(folder: Path, statgate: str) -> Iterator[Wait]:
    mosaico = str(Path(sys.executable).with_name("mosaico"))
    script = [sys.executable, "-c", SCRIPT]
    gated = [_write_passes(folder / name, seed) for seed, name in enumerate(("a.jsonl", "b.jsonl"))]
    yield Wait(
        f"gate of 2 × {GATED_ITEMS} passes",
        None,
        [mosaico, "gate", "--run", gated[1], "--baseline", gated[0]],
        [statgate, "compare", *gated],
    )
    short, long = (
        [_write_texts(folder / f"{size}-{side}.jsonl", size, side) for side in (1, 2)]
        for size in (SHORT_ROWS, LONG_ROWS)
    )
    comparing = [mosaico, "compare", "--html", str(folder / "page.html")]
    yield Wait(f"compare {SHORT_ROWS} rows", 0.8, [*comparing, *short], [*script, *short])
    yield Wait(f"compare {LONG_ROWS:,} rows", 2.5, [*comparing, *long], [*script, *long], rounds=1)
    yield Wait("score", 0.4, [mosaico, "score", short[0]], [*script, short[0]])
    importing = [sys.executable, "-c", "from mosaico import score"]
    of_peer = [sys.executable, "-c", "from sacrebleu import sentence_bleu"]
    yield Wait("import score", 0.3, importing, of_peer)
    yield Wait("--help", 0.1, [mosaico, "--help"], [statgate, "--help"])


def _row(wait: Wait, folder: Path) -> BenchRow:
    # Both in turn, so that load on the machine affects both alike. The first round compiles the modules.
    rounds = [
        (_cost(wait.command, folder), _cost(wait.peer, folder)) for _ in range(wait.rounds + 1)
    ]
    ours, peer = (_median(costs) for costs in list(zip(*rounds[1:], strict=True)))
    goal_s = peer.seconds if wait.goal_s is None else wait.goal_s
    goal = "not slower than statgate" if wait.goal_s is None else f"≤ {goal_s:g} s"
    note = f"{ours} beside {peer} of {Path(wait.peer[0]).name}"
    return BenchRow(wait.name, goal, ours.seconds / peer.seconds, ours.seconds <= goal_s, note)


def _cost(command: Sequence[str], folder: Path) -> Cost:
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "modules")}
    # An installation has compiled modules.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before, began = _cpu_seconds(), time.perf_counter()
    completed = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    cost = Cost(time.perf_counter() - began, _cpu_seconds() - before)
    # 1 and above are verdicts of a gate; an error of ours or of the peer ends in a traceback or a line of its own.
    if completed.returncode not in {0, 1, 2} or "rror" in completed.stderr:
        raise RuntimeError(f"{command[0]} failed: {completed.stderr}")
    return cost


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _median(costs: Sequence[Cost]) -> Cost:
    return Cost(*(median(values) for values in zip(*costs, strict=True)))


def _write_passes(file: Path, seed: int) -> str:
    chance = random.Random(seed)
    rows = ({"id": f"i{item}", "passed": chance.random() < 0.8} for item in range(GATED_ITEMS))
    return _write(file, rows)


def _write_texts(file: Path, size: int, side: int) -> str:
    """The same questions on both sides; about a third of the answers differ from the expected ones."""
    chance = random.Random(side)
    rows = (
        {
            "id": f"i{number}",
            "expected": pair.expected,
            "output": pair.expected if chance.random() < 2 / 3 else pair.output,
        }
        for number, pair in enumerate(generated_pairs(size, 12, 12))
    )
    return _write(file, rows)


def _write(file: Path, rows: Iterable[Mapping[str, object]]) -> str:
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return str(file)
