"""The pytest plugin with metrics that call a model, named by the option `llm` of the marker."""

from pathlib import Path

import pytest

from mosaico.sdk.pytest_plugin import UPDATE
from tests.support.inner_pytest import run_inner_pytest
from tests.support.llm import EMBEDDER, JUDGE, KEY, ModelService, ReceivedLlmRequest

EVALUATION = """
import mosaico
import pytest

ITEMS = [{{"id": f"q{{n}}", "input": f"question {{n}}", "expected": "It is Rome"}} for n in range(20)]
LLM = mosaico.LlmOptions(
    base_url={url!r}, api_key={key!r}, model={model!r}, embeddings_model={embedder!r}, cache="cache"
)

@pytest.mark.mosaico(items=ITEMS, metrics=["LLM_JUDGE", "SEMANTIC_SIMILARITY"], llm=LLM)
def test_answers(item):
    return "It is Oslo" if int(item.id[1:]) < {wrong} else "It is Rome"
"""


def _judge(request: ReceivedLlmRequest) -> str:
    score = 0 if "It is Oslo" in request.texts[-1] else 1
    return f'{{"reason": "it is {score}", "score": {score}}}'


def test_evaluation__judge_and_embeddings_decide(
    models: ModelService,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    models.judge = _judge

    def run_evaluation(*options: str, wrong: int) -> tuple[int, str]:
        text = EVALUATION.format(
            url=models.url, key=KEY, model=JUDGE, embedder=EMBEDDER, wrong=wrong
        )
        (tmp_path / "test_bot.py").write_text(text)
        code = run_inner_pytest(*options)
        return code, capsys.readouterr().out

    assert run_evaluation(UPDATE, wrong=0)[0] == 0
    code, same = run_evaluation(wrong=0)
    assert code == 0, same
    assert len(models.conversations) == 20

    code, worse = run_evaluation(wrong=12)
    assert code == 1, worse
    assert "LLM_JUDGE: it is worse" in worse
    # 1 to 0.953 in 20 items: a whole run may vary by half of that.
    assert "SEMANTIC_SIMILARITY | INCONCLUSIVE | " in worse
    # The other answers were judged before.
    assert len(models.conversations) == 32
    assert {*models.embedded} == {"It is Oslo", "It is Rome"}
    assert KEY not in worse
