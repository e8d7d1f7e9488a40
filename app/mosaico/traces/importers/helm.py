"""Results of HELM: `display_predictions.json`, `scenario_state.json` and `per_instance_stats.json`.

Each is read alone: the first has predictions with their statistics, the second questions and answers, the third statistics by
instance. Perturbed instances are other questions, and are left out. Numbers of tokens, of seconds and of finish reasons are no
scores. Source: HELM `presentation/run_display.py`, `benchmark/adaptation`, `benchmark/metrics/metric.py`.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from mosaico.traces.files.cell_values import as_number
from mosaico.traces.files.imported_values import object_of, objects_of
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_document, register_tool

NO_QUALITY: Final = re.compile(
    r"(?:num_.+|inference_.+|finish_reason_.+|training_.+|.+_idealized_runtime|.+_denoised_runtime|logprob.*"
    r"|prompt_truncated|max_.+|batch_size|predicted_index)"
)
CORRECT: Final = "correct"


def read_prediction(row: Cells) -> Mapping[str, Any]:
    """The fields of a prediction: the mapped text of a multiple choice, else what the model wrote."""
    stats = object_of(row.get("stats"))
    return {
        "trial": _trial(row),
        "output": row.get("mapped_output") or row.get("predicted_text"),
        **_measured(stats),
    }


def read_stats(row: Cells) -> Mapping[str, Any]:
    """The fields of the statistics of an instance; a statistic without a value is missing."""
    stats = {
        str(object_of(stat.get("name")).get("name")): _mean(stat)
        for stat in objects_of(row.get("stats"))
        if not object_of(stat.get("name")).get("perturbation")
    }
    return {"trial": _trial(row), **_measured(stats)}


def find_states(document: Mapping[str, Any]) -> Iterable[Cells] | None:
    """The requests of a `scenario_state.json`."""
    states = document.get("request_states")
    return objects_of(states) if isinstance(states, list) and "adapter_spec" in document else None


def read_state(row: Cells) -> Mapping[str, Any]:
    """The fields of a request: its question, its right references, and its completion."""
    instance, result = object_of(row.get("instance")), object_of(row.get("result"))
    answer = next((c.get("text") for c in objects_of(result.get("completions"))), None)
    mapped = object_of(row.get("output_mapping")).get(str(answer).strip())
    right = [
        object_of(reference.get("output")).get("text")
        for reference in objects_of(instance.get("references"))
        if CORRECT in (reference.get("tags") or ())
    ]
    return {
        "item": instance.get("id"),
        "trial": _trial(row),
        "input": object_of(instance.get("input")).get("text"),
        "output": mapped or answer,
        "expected": right[0] if len(right) == 1 else {"answers": right} if right else None,
        "error": result.get("error") if result.get("success") is False else None,
        "latencySeconds": result.get("request_time"),
    }


def _mean(stat: Mapping[str, Any]) -> float | None:
    count, total = as_number(stat.get("count")), as_number(stat.get("sum"))
    return total / count if count and total is not None else None


def _trial(row: Cells) -> int | None:
    trial = row.get("train_trial_index")
    return trial if isinstance(trial, int) else None


def _measured(stats: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "inputTokens": stats.get("num_prompt_tokens"),
        "outputTokens": stats.get("num_output_tokens"),
        "latencySeconds": stats.get("inference_runtime"),
        "scores": {name: value for name, value in stats.items() if not NO_QUALITY.fullmatch(name)},
    }


def skip_perturbed(row: Cells) -> str | None:
    """Why a prediction is no result: its question was perturbed."""
    perturbation = row.get("perturbation") or object_of(row.get("instance")).get("perturbation")
    return "predictions of perturbed questions are skipped" if perturbation else None


USED: Final = (
    "train_trial_index", "predicted_text", "mapped_output", "stats", "perturbation", "truncated_predicted_text",
    "base64_images", "reference_index", "annotations", "thinking_text", "instance", "result", "request",
    "request_mode", "output_mapping", "num_train_instances", "num_conditioning_tokens", "prompt_truncated",
)  # fmt: skip

register_tool(
    "helm",
    "predictions of HELM",
    lambda row: {"instance_id", "train_trial_index", "predicted_text"} <= row.keys(),
    ToolTable(
        columns={"item": "instance_id"}, compute=read_prediction, used=USED, skip=skip_perturbed
    ),
)
register_tool(
    "helm-stats",
    "statistics of HELM by instance",
    lambda row: (
        {"instance_id", "train_trial_index", "stats"} <= row.keys()
        and isinstance(row["stats"], list)
    ),
    ToolTable(columns={"item": "instance_id"}, compute=read_stats, used=USED, skip=skip_perturbed),
)
register_document(
    "helm-state",
    "requests of HELM",
    find_states,
    ToolTable(compute=read_state, used=USED, skip=skip_perturbed),
)
