"""Predictions of HELM (`display_predictions.json`): by instance, perturbation and trial, with statistics.

Perturbed instances are other questions, and are left out. Numbers of tokens, of seconds and of finish reasons are no scores. The
expected answers are in another file. Source: HELM `presentation/run_display.py`.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from mosaico.traces.files.imported_values import object_of
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_tool

NO_QUALITY: Final = re.compile(
    r"(?:num_.+|inference_.+|finish_reason_.+|training_.+|.+_idealized_runtime|.+_denoised_runtime|logprob.*"
    r"|prompt_truncated|max_.+|batch_size)"
)


def read_prediction(row: Cells) -> Mapping[str, Any]:
    """The fields of a prediction: the mapped text of a multiple choice, else what the model wrote."""
    stats = object_of(row.get("stats"))
    trial = row.get("train_trial_index")
    return {
        "trial": trial if isinstance(trial, int) else None,
        "output": row.get("mapped_output") or row.get("predicted_text"),
        "inputTokens": stats.get("num_prompt_tokens"),
        "outputTokens": stats.get("num_output_tokens"),
        "latencySeconds": stats.get("inference_runtime"),
        "scores": {name: value for name, value in stats.items() if not NO_QUALITY.fullmatch(name)},
    }


def skip_perturbed(row: Cells) -> str | None:
    """Why a prediction is no result: its question was perturbed."""
    return "predictions of perturbed questions are skipped" if row.get("perturbation") else None


register_tool(
    "helm",
    "predictions of HELM",
    lambda row: {"instance_id", "train_trial_index", "predicted_text"} <= row.keys(),
    ToolTable(
        columns={"item": "instance_id"},
        compute=read_prediction,
        used=("train_trial_index", "predicted_text", "mapped_output", "stats", "perturbation",
              "truncated_predicted_text", "base64_images", "reference_index", "annotations", "thinking_text"),
        skip=skip_perturbed,
    ),
)  # fmt: skip
