"""Every list of the API is measured at a million rows, with each of its filters: `python -m benchmarks lists`."""

import re

from benchmarks.lists import LISTS, PAIRS, SEARCHES
from tests.support.described_api import api_document

# They page the list, whatever its filters.
OF_EVERY_LIST = {"limit", "cursor"}
# They list no table: they are computed from the items of two runs or of one.
COMPUTED = {
    "/api/v1/benchmark-runs/compare/items",
    "/api/v1/benchmark-runs/{runId}/categories",
}


def test_lists__each_filter_is_measured() -> None:
    unmeasured = []
    for path, operations in api_document()["paths"].items():
        parameters = operations.get("get", {}).get("parameters", [])
        names = {parameter["name"] for parameter in parameters if parameter["in"] == "query"}
        if "cursor" not in names or path in COMPUTED:
            continue
        template = re.sub(r"\{[^}]*\}", "[^/?]+", path.removeprefix("/api/v1"))
        measured = [
            page
            for page in (*LISTS, *SEARCHES, *PAIRS)
            if re.fullmatch(template, page.partition("?")[0])
        ]
        measured_names = {name for page in measured for name in re.findall(r"[?&](\w+)=", page)}
        missing = sorted(names - measured_names - OF_EVERY_LIST)
        if missing or not measured:
            unmeasured.append(f"{path}: {', '.join(missing) or 'no page'}")

    assert unmeasured == []
