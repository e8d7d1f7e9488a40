"""A hundred real answers of an agent, compared with the reference libraries."""

import json
from functools import partial
from pathlib import Path

import pytest

from tests.support.references import IN_ONE_PROCESS, Reference
from tests.support.service import JSON, Service

pytestmark = IN_ONE_PROCESS
rouge_scorer = Reference("rouge_score.rouge_scorer")
sacrebleu = Reference("sacrebleu.metrics.bleu")

TRACES = Path(__file__).parents[4] / "shared" / "data" / "mosaico" / "traces.jsonl"
RUNS = "/benchmark-runs"
within = partial(pytest.approx, rel=0, abs=1e-12)


@pytest.mark.skipif(not TRACES.exists(), reason="the real traces are not part of the repository")
def test_real_traces__rouge_and_bleu_equal_the_reference_implementations(service: Service) -> None:
    lines = [json.loads(line) for line in TRACES.read_text("utf-8").splitlines()]
    service.create_agent()
    service.create_benchmark(
        metrics=["ROUGE", "ROUGE_1", "ROUGE_2", "BLEU"],
        measures=[{"name": "quality", "formula": "WEIGHTED_SUM(ROUGE:0.7, BLEU:0.3)"}],
    )
    service.upload(lines)
    run = service.complete_run()
    assert (run["status"], run["validity"], run["tracesProcessed"]) == ("COMPLETED", "VALID", 100)

    scorer = rouge_scorer.RougeScorer(["rougeL", "rouge1", "rouge2"])
    # As the metric: an answer of fewer than four words has no sequence of four.
    bleu = sacrebleu.BLEU(effective_order=True)
    rows = service.list_items(f"{RUNS}/{run['id']}/results", limit=30)
    assert [row["traceId"] for row in rows] == [line["traceId"] for line in lines]
    expected: list[JSON] = []
    for line in lines:
        reference, output = line["expectedOutput"], line["output"]
        rouge = scorer.score(reference, output)
        expected.append(
            {
                "ROUGE": rouge["rougeL"].fmeasure,
                "ROUGE_1": rouge["rouge1"].fmeasure,
                "ROUGE_2": rouge["rouge2"].fmeasure,
                "BLEU": bleu.sentence_score(output, [reference]).score / 100,
                "ERROR_RATE": 0.0,
            }
        )
    for row, values in zip(rows, expected, strict=True):
        assert row["values"] == within(values)
    means = {key: sum(values[key] for values in expected) / 100 for key in expected[0]}
    # Listed only where answers failed.
    del means["ERROR_RATE"]
    metrics = service.get(f"{RUNS}/{run['id']}/metrics")["items"]
    assert {aggregate["metric"]: aggregate["mean"] for aggregate in metrics} == within(means)
    [kpi] = service.get(f"{RUNS}/{run['id']}/kpis")["items"]
    assert kpi["value"] == within(0.7 * means["ROUGE"] + 0.3 * means["BLEU"])
