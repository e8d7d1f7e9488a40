"""`mosaico mcp`: a server for coding agents."""

from pathlib import Path
from typing import Annotated

import typer

from mosaico.core.console.terminal import CommandGroup, WrongUsage

cli = CommandGroup(
    "mcp", help="Serve the results to coding agents, over the Model Context Protocol."
)


HttpOption = Annotated[
    str | None,
    typer.Option(
        "--http",
        metavar="HOST:PORT",
        help="Serve streamable HTTP at this address instead of standard input and output. Each request needs its own"
        " API key.",
    ),
]
AllowedHosts = Annotated[
    list[str] | None,
    typer.Option(
        "--allowed-host",
        metavar="HOST",
        help="Host name that clients use in the URL, besides the address of --http. Repeatable.",
    ),
]
AllowRuns = Annotated[
    bool,
    typer.Option(
        "--allow-runs", help="Add the tool that starts a run; without it, all tools read only."
    ),
]


@cli.command("mcp")
def mcp(
    *, http: HttpOption = None, allowed_host: AllowedHosts = None, allow_runs: AllowRuns = False
) -> None:
    """Serve the results to coding agents, over the Model Context Protocol.

    The client starts this command: see docs/mcp.md for Claude Code, Cursor and VS Code. Tools say what got worse and why,
    compare runs, and show traces and trends, with the role and the limits of the API key. Needs the packages of the extra
    `mcp`.
    """
    # The SDK takes long to import, and `--help` needs none of it.
    from mosaico.core.console.service_address import find_service
    from mosaico.core.extras import require_extra

    require_extra("mcp", "servers of the Model Context Protocol")
    if allowed_host and http is None:
        raise WrongUsage("--allowed-host belongs to --http", hint="add --http 127.0.0.1:8765")
    url = find_service().url
    if http is None:
        # As above.
        from mosaico.mcp_server.stdio_transport import serve_stdio

        serve_stdio(url, Path.cwd(), allow_runs=allow_runs)
    else:
        # As above.
        from mosaico.mcp_server.http_transport import parse_address, serve_http

        serve_http(url, parse_address(http), allowed_host or [], allow_runs=allow_runs)
