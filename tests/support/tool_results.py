"""One small file in the form of each tool, whose answers are empty and of which nothing reads `surprise`.

A file has two results of one shape, so that JSON Lines are lines. Formats without answers are in `WITHOUT_ANSWERS`.
"""

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

Row = Mapping[str, Any]


def json_file(document: Any) -> bytes:
    return json.dumps(document).encode()


def json_lines(*rows: Row) -> bytes:
    return b"".join(json_file(row) + b"\n" for row in rows)


def csv_file(*rows: Row) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def twice(row: Row, **others: Any) -> Sequence[Row]:
    """The row, and a second one that differs in some columns."""
    return [row, {**row, **others}]


SURPRISE: Final = {"surprise": "lost"}
TALK: Final = [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": ""}]
LANGSMITH: Final = {
    "inputs.question": "1+1?",
    "outputs.answer": "",
    "reference.answer": "2",
    "feedback.correctness": "0",
    "execution_time": "1",
    "example_id": "e1",
    **SURPRISE,
}
AZURE: Final = {
    "inputs.query": "1+1?",
    "inputs.ground_truth": "2",
    "outputs.response": "",
    "outputs.fluency.fluency": 2,
    **SURPRISE,
}
PHOENIX: Final = {
    "example_id": "e1",
    "repetition_number": 1,
    "input": {"question": "1+1?"},
    "reference_output": {"answer": "2"},
    "output": {"answer": ""},
    "annotations": [],
    **SURPRISE,
}
LANGFUSE: Final = {
    "id": "t1",
    "timestamp": "2026-01-01T00:00:00Z",
    "environment": "default",
    "input": "1+1?",
    "output": "",
    **SURPRISE,
}
BRAINTRUST: Final = {
    "id": "r1",
    "input": {"question": "1+1?"},
    "output": "",
    "expected": "2",
    "scores": {"Factuality": 0},
    "metrics": {"start": 1, "end": 2},
    **SURPRISE,
}
WEAVE: Final = {
    "id": "c1",
    "inputs": {"example": {"question": "1+1?", "expected": "2"}},
    "output": {"model_output": "", "scores": {"exact": False}, "model_latency": 1},
    **SURPRISE,
}
EVALS_ITEM: Final = {
    "object": "eval.run.output_item",
    "id": "o1",
    "status": "fail",
    "datasource_item": {"question": "1+1?", "ground_truth": "2"},
    "sample": {"input": TALK[:1], "output": TALK[1:]},
    "results": [],
    **SURPRISE,
}
EVALS_LOG: Final[Sequence[Row]] = [
    {"spec": {"completion_fns": ["m"]}},
    *(
        {"event_id": number, "sample_id": "s.test.0", "type": kind, "data": data}
        for number, (kind, data) in enumerate(
            [
                ("sampling", {"prompt": TALK[:1], "sampled": [""]}),
                ("match", {"correct": False, "expected": "2"}),
                ("surprise", {"lost": True}),
            ]
        )
    ),
]
MLFLOW: Final = {
    "trace_id": "t1",
    "state": "OK",
    "request": {"question": "1+1?"},
    "response": "",
    "assessments": [],
    **SURPRISE,
}
MLFLOW_TABLE: Final = {
    "columns": ["question", "ground_truth", "outputs", "exact_match/v1", "surprise"],
    "data": [["1+1?", "2", "", 0, "lost"], ["2+2?", "4", "", 0, "lost"]],
}
BATCH: Final = {
    "id": "b1",
    "custom_id": "q1",
    "response": {"status_code": 200, "body": {"choices": [{"index": 0, "message": TALK[1]}]}},
    "error": None,
    **SURPRISE,
}
CACHE: Final = {
    "test_cases_lookup_map": {
        json.dumps({"input": "1+1?", "actual_output": "", "surprise": "lost"}): {
            "cached_metrics_data": [{"metric_data": {"name": "Bias", "score": 0, "success": True}}]
        }
    }
}
BEDROCK: Final = {
    "automatedEvaluationResult": {"scores": [{"metricName": "Builtin.Accuracy", "result": 0}]},
    "inputRecord": {"prompt": "1+1?", "referenceResponse": "2"},
    "modelResponses": [{"response": "", "modelIdentifier": "m"}],
    **SURPRISE,
}
OPIK: Final = {
    "experiment": {"name": "e"},
    "items": [
        {
            "dataset_item_id": "d1",
            "trace_id": "t1",
            "dataset_item_data": {"input": "1+1?", "expected_output": "2"},
            "evaluation_task_output": {"output": ""},
            "feedback_scores": [],
            **SURPRISE,
        }
    ],
}
TAU2: Final = {
    "info": {"agent_info": {"llm": "m"}},
    "tasks": [{"id": "0"}],
    "simulations": [
        {
            "task_id": "0",
            "trial": 0,
            "termination_reason": "user_stop",
            "reward_info": {"reward": 0},
            "messages": TALK,
            **SURPRISE,
        }
    ],
}
TERMINAL_BENCH: Final = {
    "task_id": "t1",
    "trial_name": "t1.1-of-1.run",
    "is_resolved": False,
    "failure_mode": "unset",
    **SURPRISE,
}
HARBOR: Final = {
    "task_name": "t1",
    "trial_name": "t1__x",
    "verifier_result": {"rewards": {"reward": 0}},
    **SURPRISE,
}
MT_BENCH: Final = {
    "question_id": 81,
    "turn": 1,
    "model": "m",
    "judge": ["j", "v1"],
    "score": 7,
    "tstamp": 1.0,
    **SURPRISE,
}
ALPACA: Final = {
    "instruction": "1+1?",
    "output_1": "2",
    "output_2": "",
    "generator_2": "m",
    "preference": 1.0,
    **SURPRISE,
}
ARENA: Final = {
    "uid": "u1",
    "model": "m",
    "games": [{"score": "A>B"}, {"score": "B>A"}],
    **SURPRISE,
}
BFCL: Final = {
    "id": "simple_0",
    "result": "",
    "input_token_count": 5,
    "output_token_count": 1,
    **SURPRISE,
}
EVALPLUS: Final = {
    "eval": {"T/0": [{"solution": "", "base_status": "fail", "plus_status": "fail", **SURPRISE}]}
}
SWE_BENCH: Final = {
    "total_instances": 2,
    "resolved_ids": ["a"],
    "unresolved_ids": ["b"],
    **SURPRISE,
}

AGENTBENCH: Final = {
    "index": 0,
    "error": None,
    "output": {"status": "completed", "result": {"is_correct": False}, "history": TALK},
    **SURPRISE,
}
TRULENS: Final = {
    "record_id": "r1",
    "app_name": "a",
    "input": "1+1?",
    "output": "",
    "Relevance": 0,
    "Relevance_calls": "[]",
    **SURPRISE,
}
OPENCOMPASS: Final = {"0": {"origin_prompt": "1+1?", "prediction": "", "gold": "2", **SURPRISE}}
HELM: Final = {
    "instance_id": "id1",
    "train_trial_index": 0,
    "predicted_text": "",
    "stats": {"exact_match": 0.0},
    **SURPRISE,
}
HELM_STATS: Final = {
    "instance_id": "id1",
    "train_trial_index": 0,
    "stats": [{"name": {"name": "exact_match"}, "count": 1, "sum": 0.0}],
    **SURPRISE,
}
HELM_STATE: Final = {
    "adapter_spec": {},
    "request_states": [
        {
            "instance": {"id": "id1", "input": {"text": "1+1?"}},
            "result": {"success": True, "completions": [{"text": ""}]},
            **SURPRISE,
        }
    ],
}
LIGHTEVAL: Final = {
    "doc": {"id": "1", "query": "1+1?", "choices": ["2"], "gold_index": 0},
    "model_response": {"text": [""]},
    "metric": {"em": 0.0},
    **SURPRISE,
}
OLD_LIGHTEVAL: Final = {
    "full_prompt": "1+1?",
    "predictions": [""],
    "gold": ["2"],
    "metrics": {"em": 0.0},
    **SURPRISE,
}
VERTEX: Final = {"instance": {"prompt": "1+1?"}, "prediction": {"content": ""}, **SURPRISE}
VERTEX_CASES: Final = {
    "eval_case_results": [
        {
            "eval_case_index": 0,
            "response_candidate_results": [{"metric_results": {"quality": {"score": 0.0}}}],
            **SURPRISE,
        }
    ],
    "evaluation_dataset": [
        {
            "eval_cases": [
                {
                    "prompt": {"role": "user", "parts": [{"text": "1+1?"}]},
                    "responses": [{"response": {"role": "model", "parts": [{"text": ""}]}}],
                }
            ]
        }
    ],
}
MT_BENCH_PAIR: Final = {
    "question_id": 1,
    "turn": 1,
    "model_1": "m",
    "model_2": "base",
    "g1_winner": "model_2",
    "g2_winner": "model_2",
    **SURPRISE,
}
BEDROCK_RAG: Final = {
    "conversationTurns": [
        {
            "inputRecord": {"prompt": {"content": [{"text": "1+1?"}]}},
            "output": {"text": ""},
            "results": [{"metricName": "Builtin.Correctness", "result": 0.0}],
        }
    ],
    **SURPRISE,
}

TOOL_FILES: Final[Mapping[str, Callable[[], bytes]]] = {
    "langsmith": lambda: csv_file(*twice(LANGSMITH, example_id="e2")),
    "openai-evals-api": lambda: json_lines(*twice(EVALS_ITEM, id="o2")),
    "openai-evals-log": lambda: json_lines(*EVALS_LOG),
    "azure-evaluation": lambda: json_file({"rows": [AZURE], "metrics": {}}),
    "phoenix": lambda: json_file([PHOENIX]),
    "mlflow": lambda: json_lines(*twice(MLFLOW, trace_id="t2")),
    "mlflow-evaluate": lambda: json_file(MLFLOW_TABLE),
    "langfuse-export": lambda: json_lines(*twice(LANGFUSE, id="t2")),
    "braintrust": lambda: json_lines(*twice(BRAINTRUST, id="r2")),
    "weave": lambda: json_lines(*twice(WEAVE, id="c2")),
    "batch": lambda: json_lines(*twice(BATCH, custom_id="q2")),
    "deepeval-cache": lambda: json_file(CACHE),
    "bedrock": lambda: json_lines(*twice(BEDROCK)),
    "opik": lambda: json_file(OPIK),
    "tau-bench": lambda: json_file(
        [{"task_id": 0, "reward": 0.0, "traj": TALK, "trial": 0, **SURPRISE}]
    ),
    "tau2-bench": lambda: json_file(TAU2),
    "terminal-bench": lambda: json_file({"results": [TERMINAL_BENCH]}),
    "harbor": lambda: json_file(HARBOR),
    "swe-bench": lambda: json_file(SWE_BENCH),
    "mt-bench": lambda: json_lines(*twice(MT_BENCH, turn=2)),
    "alpaca-eval": lambda: json_file([ALPACA]),
    "arena-hard": lambda: json_lines(*twice(ARENA, uid="u2")),
    "bfcl": lambda: json_lines(*twice(BFCL, id="simple_1")),
    "agentbench": lambda: json_lines(*twice(AGENTBENCH, index=1)),
    "trulens": lambda: csv_file(TRULENS),
    "opencompass": lambda: json_file(OPENCOMPASS),
    "helm": lambda: json_file([HELM]),
    "evalplus": lambda: json_file(EVALPLUS),
    "helm-stats": lambda: json_file([HELM_STATS]),
    "helm-state": lambda: json_file(HELM_STATE),
    "lighteval": lambda: json_lines(*twice(LIGHTEVAL)),
    "lighteval-leaderboard": lambda: json_lines(*twice(OLD_LIGHTEVAL)),
    "vertex": lambda: json_lines(*twice(VERTEX)),
    "vertex-document": lambda: json_file({"instances": ["1+1?"], "predictions": [""], **SURPRISE}),
    "vertex-evaluation": lambda: json_file(VERTEX_CASES),
    "mt-bench-pairs": lambda: json_lines(*twice(MT_BENCH_PAIR, turn=2)),
    "bedrock-rag": lambda: json_lines(*twice(BEDROCK_RAG)),
}
WITHOUT_ANSWERS: Final = frozenset(
    {
        *("terminal-bench", "harbor", "swe-bench", "mt-bench", "mt-bench-pairs", "arena-hard"),
        "helm-stats",
    }
)
