"""T1 to T4: our metrics, through the engine, compared with rouge-score, sacrebleu and naive sets.

Both sides compute ROUGE, ROUGE_1, ROUGE_2, BLEU, ACCURACY, PRECISION, RECALL and F1_SCORE of the
same pairs (T3: the three ROUGE metrics, stemmed). Every value of ROUGE and BLEU in T1 to T3 is
compared before it is timed.
"""

import gc
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from benchmarks.result_rows import BenchRow, interleave
from mosaico.metrics.engine import CHUNK_SIZE, measure_chunk
from mosaico.metrics.registry import default_refs, load_metrics, providers_for
from mosaico.metrics.types import MetricProvider, MetricRef
from mosaico.traces.types import Trace

REAL_PAIRS: Final = Path(__file__).resolve().parents[2] / "shared/data/mosaico/traces.jsonl"
ROUGES: Final = ("ROUGE", "ROUGE_1", "ROUGE_2")
ALL: Final = (*ROUGES, "BLEU", "ACCURACY", "PRECISION", "RECALL", "F1_SCORE")
COLD_PAIRS: Final = 2000
COLD_ROUNDS: Final = 5
PASSES: Final = 3
TOLERANCE: Final = 1e-12


class Pair(NamedTuple):
    expected: str
    output: str


class Scores(NamedTuple):
    """The values of rouge-score and sacrebleu for one pair."""

    rouge_l: float
    rouge_1: float
    rouge_2: float
    bleu: float | None


class Task(NamedTuple):
    name: str
    goal: float
    work: str
    pairs: Sequence[Pair]
    stemmed: bool = False


def measure() -> Iterator[BenchRow]:
    """The rows T1 to T4."""
    short, source = _short_pairs()
    yield _warm(Task("T1", 10, f"8 metrics, {source}", short))
    yield _warm(Task("T2", 40, "8 metrics, 300 words a text", generated_pairs(20, 300, 300)))
    yield _warm(
        Task("T3", 20, "stemmed ROUGE, 300 words a text", generated_pairs(20, 300, 300), True)
    )
    yield _cold()


def _warm(task: Task) -> BenchRow:
    ours, peer = _our_work(task), _peer_work(task)
    _compare(task.name, ours(), peer())
    # Both sides work about equally long per round: caches are equally warm, and load on the machine
    # affects both alike.
    ours_passes = round(PASSES * task.goal)
    timed = interleave(
        _repeated(ours, ours_passes), _repeated(peer, PASSES), clock=time.process_time
    )
    return _row(
        task.name,
        task.goal,
        task.work,
        timed.ours_seconds / ours_passes,
        timed.peer_seconds / PASSES,
        task.pairs,
    )


def _repeated(work: Callable[[], object], times: int) -> Callable[[], None]:
    def several() -> None:
        for _ in range(times):
            work()

    return several


def _row(
    name: str, goal: float, work: str, ours: float, peer: float, pairs: Sequence[object]
) -> BenchRow:
    ratio = peer / ours
    note = (
        f"{work}: {ours / len(pairs) * 1e6:.0f} µs beside {peer / len(pairs) * 1e6:.0f} µs a pair"
    )
    return BenchRow(name, f"≥ {goal:g}×", ratio, ratio >= goal, note)


def _providers(stemmed: bool) -> tuple[MetricProvider, ...]:  # noqa: FBT001
    load_metrics()
    if stemmed:
        return providers_for(tuple(MetricRef.of(key, {"useStemmer": True}) for key in ROUGES))
    return providers_for(default_refs(ALL))


def _our_work(task: Task) -> Callable[[], list[Sequence[float | None]]]:
    providers = _providers(task.stemmed)
    traces = [_trace(number, pair) for number, pair in enumerate(task.pairs)]
    # As a worker does: `app/mosaico/runs/scoring.py`.
    chunks = [traces[i : i + CHUNK_SIZE] for i in range(0, len(traces), CHUNK_SIZE)]
    return lambda: [row.values for chunk in chunks for row in measure_chunk(chunk, providers)]


def _trace(number: int, pair: Pair) -> Trace:
    return Trace(
        trace_id=str(number),
        item_id=str(number),
        expected_output=pair.expected,
        output=pair.output,
    )


def _peer_work(task: Task) -> Callable[[], list[Scores]]:
    from rouge_score.rouge_scorer import RougeScorer
    from sacrebleu import sentence_bleu

    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=task.stemmed)

    def score(pair: Pair) -> Scores:
        rouge = scorer.score(pair.expected, pair.output)
        bleu = None
        if not task.stemmed:
            bleu = sentence_bleu(pair.output, [pair.expected], use_effective_order=True).score / 100
            naive_overlap(pair)
        return Scores(
            rouge["rougeL"].fmeasure, rouge["rouge1"].fmeasure, rouge["rouge2"].fmeasure, bleu
        )

    return lambda: [score(pair) for pair in task.pairs]


def naive_overlap(pair: Pair) -> tuple[float, float, float, float]:
    """Accuracy, precision, recall and F1 of sets of words in the most direct implementation."""
    expected, output = set(pair.expected.lower().split()), set(pair.output.lower().split())
    common = len(expected & output)
    precision = common / len(output) if output else 0.0
    recall = common / len(expected) if expected else 0.0
    f1 = 2 * precision * recall / (precision + recall) if common else 0.0
    return float(pair.expected.lower() == pair.output.lower()), precision, recall, f1


def _compare(name: str, ours: Sequence[Sequence[float | None]], peer: Sequence[Scores]) -> None:
    for row, scores in zip(ours, peer, strict=True):
        # The sets of words are not compared: the naive side splits texts at spaces only.
        for mine, theirs in zip(row, scores, strict=False):
            if theirs is not None and (mine is None or abs(mine - theirs) > TOLERANCE):
                raise SystemExit(f"{name}: {mine!r} is not {theirs!r}; the metrics are wrong")


def _short_pairs() -> tuple[Sequence[Pair], str]:
    if not REAL_PAIRS.exists():
        return generated_pairs(100, 12, 92), "generated pairs of 12 and 92 words"
    with REAL_PAIRS.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    pairs = [Pair(row["expectedOutput"], row["output"]) for row in rows]
    return pairs, f"{len(pairs)} real pairs"


def generated_pairs(count: int, expected_words: int, output_words: int) -> list[Pair]:
    """Distinct pairs with the word frequencies, punctuation and common passages of prose."""
    chance = random.Random(20_261_121)
    vocabulary = [_word(chance) for _ in range(4000)]
    weights = [1 / rank for rank in range(1, len(vocabulary) + 1)]

    def text(words: list[str]) -> str:
        signed = [word + chance.choice([""] * 8 + [",", "."]) for word in words]
        return " ".join(signed).rstrip(",.").capitalize() + "."

    def pair() -> Pair:
        expected = chance.choices(vocabulary, weights, k=expected_words)
        output = chance.choices(vocabulary, weights, k=output_words)
        shared = chance.randrange(expected_words // 4 + 1)
        output[:shared] = expected[:shared]
        return Pair(text(expected), text(output))

    return [pair() for _ in range(count)]


def _word(chance: random.Random) -> str:
    syllables = ("re", "con", "ta", "mi", "sul", "ver", "a", "in", "de", "pro", "lo", "ken")
    endings = ("", "s", "ing", "ed", "tion", "ly", "ness", "able")
    return "".join(chance.choices(syllables, k=chance.randint(1, 3))) + chance.choice(endings)


def _cold() -> BenchRow:
    """A new process for each side and round; imports and the generation of pairs are not timed."""
    ours, peer = [], []
    for _ in range(COLD_ROUNDS):
        ours.append(_seconds_of_child("ours"))
        peer.append(_seconds_of_child("peer"))
    work = f"8 metrics, {COLD_PAIRS} distinct pairs, new process"
    return _row("T4", 8, work, median(ours), median(peer), range(COLD_PAIRS))


def _seconds_of_child(side: str) -> float:
    child = subprocess.run(
        [sys.executable, "-m", "benchmarks.metrics", side],
        check=True,
        capture_output=True,
        text=True,
    )
    return float(child.stdout)


def _print_cold_seconds(side: str) -> None:
    task = Task("T4", 8, "", generated_pairs(COLD_PAIRS, 12, 92))
    work = (_our_work if side == "ours" else _peer_work)(task)
    # The objects of the imports are scanned here, and not while the metrics are timed.
    gc.collect()
    started = time.process_time()
    work()
    print(time.process_time() - started)


if __name__ == "__main__":
    _print_cold_seconds(sys.argv[1])
