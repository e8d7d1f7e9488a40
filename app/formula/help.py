"""The language described as data, from the tables that the checker uses."""

from typing import Any

from app.formula.functions import (
    FUNCTIONS,
    KEYWORDS,
    MAX_BYTES,
    MAX_DEPTH,
    MAX_NODES,
    OPERATORS,
    STATISTICS,
)


def help_document() -> dict[str, Any]:
    """Functions, statistics, operators, references and limits of the language, as JSON."""
    return {
        "functions": [
            {
                "name": row.name,
                "signature": row.signature,
                "meaning": row.meaning,
                "example": row.example,
                "minArguments": row.least,
                "maxArguments": row.most,
                "weighted": row.weighted,
            }
            for row in FUNCTIONS.values()
        ],
        "operators": [
            {
                "symbol": row.symbol,
                "precedence": row.rank,
                "meaning": row.meaning,
                "example": row.example,
            }
            for row in OPERATORS
        ],
        "statistics": [{"name": row.name, "meaning": row.meaning} for row in STATISTICS.values()],
        "references": [
            {"form": "METRIC", "meaning": "mean of a metric; names count in any case"},
            {"form": "METRIC.stat", "meaning": "another statistic of it"},
            {
                "form": 'SCORE["name"].stat',
                "meaning": "a score that came with the traces; its name is case-sensitive,"
                ' with \\" and \\\\ as escapes',
            },
            {"form": 'LLM_JUDGE["name"].stat', "meaning": "one of several judges, by its name"},
        ],
        "keywords": sorted(KEYWORDS),
        "limits": {"bytes": MAX_BYTES, "depth": MAX_DEPTH, "nodes": MAX_NODES},
    }
