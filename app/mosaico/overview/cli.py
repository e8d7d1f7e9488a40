"""`mosaico demo`: load sample data into the service, and delete it."""

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from mosaico.core.console.service import open_api
from mosaico.core.console.table import JSON
from mosaico.core.console.terminal import CommandGroup, print_result, print_status
from mosaico.overview import sample_data

if TYPE_CHECKING:
    from mosaico.core.console.api_client import ApiClient

cli = CommandGroup("demo", help="Load sample data: two runs of an agent, the second one worse.")


@cli.command("demo")
def demo(
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Delete the sample data.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")] = False,
) -> None:
    """Load sample data: two runs of an agent, the second one worse.

    Prints the address of the page of that run. The sample agent and benchmark say so in their names.
    Loading them again replaces them. Requires an admin key.
    """
    with open_api() as api:
        is_removed = _remove(api)
        if remove:
            print_status("the sample data is deleted" if is_removed else "there is no sample data")
        else:
            _load(api, quiet=quiet)


def _load(api: "ApiClient", *, quiet: bool) -> None:
    from mosaico.core.web.page_paths import run_page_path
    from mosaico.runs.cli.progress import finish_watching, watch_run_until_end

    api.post("/agents", sample_data.AGENT)
    api.post("/benchmarks", sample_data.BENCHMARK)
    for run_name in sample_data.RUN_NAMES:
        api.upload(
            "/local-datasets",
            sample_data.iter_trace_lines(run_name),
            {"name": sample_data.DATASET, "runName": run_name},
        )
        body = {"benchmarkId": sample_data.BENCHMARK_ID, "agentId": sample_data.AGENT_ID}
        started = api.post("/benchmark-runs", {**body, "runName": run_name})
        run = watch_run_until_end(api, started["id"], quiet=quiet)
        finish_watching(run, exit_status=True)
    print_status(f"delete it with `{sample_data.REMOVAL}`")
    print_result(f"{api.pages_url}{run_page_path(run.id)}")


def _remove(api: "ApiClient") -> bool:
    """Delete all sample data; returns whether there was any."""
    from mosaico.core.errors import NotFound
    from mosaico.core.web.page_paths import path_of

    runs: list[JSON] = []
    # A filter by a benchmark that does not exist is an error.
    with suppress(NotFound):
        runs = list(api.items("/benchmark-runs", benchmarkId=sample_data.BENCHMARK_ID))
    datasets = list(api.items("/local-datasets", name=sample_data.DATASET))
    paths = [
        *(path_of("benchmark-runs", run["id"]) for run in runs),
        f"/benchmarks/{sample_data.BENCHMARK_ID}",
        f"/agents/{sample_data.AGENT_ID}",
        *(path_of("local-datasets", dataset["id"]) for dataset in datasets),
    ]
    deleted = 0
    for path in paths:
        with suppress(NotFound):
            # What users have made for the sample data goes with it.
            api.delete(path, cascade=path.startswith(("/benchmarks/", "/agents/")))
            deleted += 1
    return deleted > 0
