"""`ot-bench validate --servers`: starts the servers of files and checks their tools for models."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from mosaico.harness.lint import LintSeverity
from mosaico.harness.mcp.agent_loop.toolbox import Toolbox
from mosaico.harness.mcp.config import (
    DirectTask,
    HarnessTask,
    McpBenchmark,
    ServerConfig,
    servers_of,
    verifications_of,
)
from mosaico.harness.mcp.loader import LintFinding, LoadedFile
from mosaico.harness.mcp.plan import PlannedServer
from mosaico.harness.mcp.servers.server import (
    McpServer,
    ServerEnvironment,
    ServerError,
    running_servers,
)
from mosaico.harness.mcp.yaml_parser import YamlPath


async def add_server_findings(
    files: Sequence[LoadedFile], environment: ServerEnvironment
) -> list[LoadedFile]:
    """The files with findings about their servers; each server is started once for each file."""
    return [await _with_findings(file, environment) for file in files]


async def _with_findings(file: LoadedFile, environment: ServerEnvironment) -> LoadedFile:
    if file.bench is None:
        return file
    started = await asyncio.gather(
        *(_start(name, config, file, environment) for name, config in file.bench.servers.items())
    )
    servers = {server.name: server for server in started if isinstance(server, McpServer)}
    findings = [
        *file.findings,
        *(failure for failure in started if isinstance(failure, LintFinding)),
        *(
            _finding(file, ("servers", name), remark, LintSeverity.WARNING)
            for name, server in servers.items()
            for remark in server.facts.remarks
        ),
        *_missing_tools(file, file.bench, servers),
    ]
    return replace(file, findings=tuple(sorted(findings, key=lambda finding: finding.position)))


async def _start(
    name: str, config: ServerConfig, file: LoadedFile, environment: ServerEnvironment
) -> McpServer | LintFinding:
    """The server after its start and stop, or the error of its start."""
    planned = PlannedServer(name=name, config=config)
    try:
        async with running_servers([planned], file.name, environment) as [server]:
            return server
    except ServerError as error:
        return _finding(file, ("servers", name), error.detail, LintSeverity.ERROR)


def _missing_tools(
    file: LoadedFile, bench: McpBenchmark, servers: Mapping[str, McpServer]
) -> Iterable[LintFinding]:
    """Warnings for named tools that no server lists; a server may know tools that it does not list."""
    for i, scenario in enumerate(bench.scenarios):
        for k, task in enumerate(scenario.tasks):
            for path, tool, names in _named_tools(bench, task):
                if not all(name in servers for name in names):
                    continue
                toolbox = Toolbox([servers[name] for name in names])
                if toolbox.find_for_direct_call(tool) is None:
                    place: YamlPath = ("scenarios", i, "tasks", k, *path)
                    text = toolbox.describe_unknown(tool)
                    yield _finding(file, place, text, LintSeverity.WARNING)


def _named_tools(
    bench: McpBenchmark, task: HarnessTask | DirectTask
) -> Iterable[tuple[YamlPath, str, list[str]]]:
    """The tools that a task names outside of its prompt: their path, name and possible servers."""
    names = servers_of(task, getattr(bench.defaults, task.type))
    if isinstance(task, DirectTask):
        tool = task.tool or bench.defaults.direct.tool
        if tool is not None:
            yield ("tool",), tool, names
    for i, verification in enumerate(verifications_of(task)):
        own = verification.server
        yield ("verify", i, "tool"), verification.tool, names if own is None else [own]


def _finding(file: LoadedFile, path: YamlPath, text: str, severity: LintSeverity) -> LintFinding:
    return LintFinding(position=file.document.position_of(path), severity=severity, text=text)
