"""The JSON Schema of benchmark files, for editors."""

from typing import Any

from app.harness.mcp.config import McpBenchmark


def mcp_schema() -> dict[str, Any]:
    """Draft 2020-12, of a file as it is written: variables are texts like any other."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **McpBenchmark.model_json_schema(),
        "title": "ot-bench",
    }
