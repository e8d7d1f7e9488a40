"""The image, the compose file and the guide name commands, settings and addresses that exist."""

import re
import tomllib
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import typer
import yaml

from mosaico.api import PAGES, PREFIX, ROUTERS, STREAMED_ROUTES
from mosaico.cli import cli
from mosaico.core.environment import variable_of
from mosaico.core.settings import Settings
from mosaico.traces.otel.router import LOGS_PATH, TRACES_PATH

ROOT = Path(__file__).resolve().parents[2]
GUIDE = "".join(
    (ROOT / "docs" / f"{page}.md").read_text() for page in ("deployment", "processes", "network")
)
PROXY = (ROOT / "nginx.conf").read_text()
DOCKERFILE = (ROOT / "Dockerfile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
OURS = {name: of for name, of in COMPOSE["services"].items() if of["image"] == "mosaico"}
VARIABLES = {variable_of(Settings, field) for field in Settings.model_fields}


def commands() -> set[str]:
    root = typer.main.get_command(cli)
    assert isinstance(root, typer.core.TyperGroup)
    return set(root.commands)


def api_paths() -> set[str]:
    routers = [(PREFIX, router) for router in ROUTERS] + [("", router) for router in PAGES]
    declared = {
        f"{prefix}{router.prefix}{route.path}"
        for prefix, router in routers
        for route in router.routes
    }
    return declared | {LOGS_PATH, TRACES_PATH}


def test_compose__every_service_runs_an_existing_command() -> None:
    assert set(OURS) == {"migrate", "api", "worker", "scheduler"}
    assert {service["command"][0] for service in OURS.values()} <= commands()
    assert set(re.findall(r"`mosaico (\w+)", GUIDE)) <= commands()


def test_compose__every_named_setting_exists() -> None:
    of_compose = {name for service in OURS.values() for name in service["environment"]}
    named = of_compose | set(re.findall(r"\bMOSAICO_\w+", GUIDE + DOCKERFILE))
    # The commands read this one, not the service.
    assert named - {"MOSAICO_URL"} <= VARIABLES


def test_compose__every_setting_reaches_the_containers() -> None:
    """Apart from those that the image decides."""
    of_the_image = {"MOSAICO_DATA_DIR", "MOSAICO_HOST", "MOSAICO_PORT", "MOSAICO_LOG_FORMAT"}
    of_one_machine = {"MOSAICO_MASTER_KEY_FILE", "MOSAICO_API_PROCESSES"}
    for service in OURS.values():
        assert set(service["environment"]) == VARIABLES - of_the_image - of_one_machine


def test_compose__workers_mount_the_datasets_read_only() -> None:
    worker = OURS["worker"]
    inside = worker["environment"]["MOSAICO_HARNESS_DIR"]
    assert f"${{MOSAICO_HARNESS_DIR:-datasets}}:{inside}:ro" in worker["volumes"]
    assert "datasets" in COMPOSE["volumes"]
    assert set(COMPOSE["x-mosaico"]["volumes"]) < set(worker["volumes"])


def test_compose__services_wait_for_the_schema_with_minimal_rights() -> None:
    for name, service in OURS.items():
        awaited = {"db": "service_healthy"}
        if name != "migrate":
            awaited = {"migrate": "service_completed_successfully"}
        assert {of: how["condition"] for of, how in service["depends_on"].items()} == awaited
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_compose__the_api_trusts_its_proxy_and_is_reached_through_it() -> None:
    proxy, api = COMPOSE["services"]["proxy"], OURS["api"]
    address = proxy["networks"]["proxy"]["ipv4_address"]
    trusted = f"${{MOSAICO_TRUSTED_PROXIES:-{address}}}"
    assert api["environment"]["MOSAICO_TRUSTED_PROXIES"] == trusted
    [network] = COMPOSE["networks"]["proxy"]["ipam"]["config"]
    assert ip_address(address) in ip_network(network["subnet"])
    # Docker gives no other container this address.
    assert ip_address(address) not in ip_network(network["ip_range"])
    assert address != network["gateway"]
    assert [name for name, of in COMPOSE["services"].items() if "ports" in of] == ["proxy"]
    assert proxy["user"] != "0"
    assert (proxy["read_only"], proxy["cap_drop"]) == (True, ["ALL"])


def test_proxy__passes_large_bodies_to_the_routes_that_receive_them_in_parts() -> None:
    [paths] = re.findall(r"location ~ (\S+) {[^}]*proxy_request_buffering off;", PROXY)
    streamed = {path for _, path in STREAMED_ROUTES}
    posted = {path for path in api_paths() if re.search(paths, path)}
    assert streamed == posted


def test_proxy__names_the_client_and_drops_what_the_client_says_of_itself() -> None:
    headers = dict(re.findall(r'proxy_set_header (\S+) "?(.*?)"?;', PROXY))
    assert headers["X-Forwarded-For"] == "$remote_addr"
    assert headers["X-Forwarded-Proto"] == "$scheme"
    assert (headers["Forwarded"], headers["X-Forwarded-Host"]) == ("", "")


def test_compose__stop_grace_period_covers_the_shutdown() -> None:
    """An API takes 2 s, a worker 9; see `mosaico.main.SHUTDOWN_GRACE_S` and `mosaico.worker.STOP_S`."""
    graces = {name: of["stop_grace_period"] for name, of in OURS.items() if name != "migrate"}
    assert graces == {"api": "10s", "worker": "15s", "scheduler": "10s"}


def test_images__have_a_pinned_version() -> None:
    images = [of["image"] for of in COMPOSE["services"].values() if of["image"] != "mosaico"]
    images += re.findall(r"^ARG PYTHON=(.+)$", DOCKERFILE, re.MULTILINE)
    assert images
    assert all(re.search(r"\d+\.\d+", image) for image in images)


def test_image__runs_as_a_non_root_user() -> None:
    assert re.findall(r"^USER (.+)$", DOCKERFILE, re.MULTILINE) == ["10001"]


def test_image__has_the_labels_that_make_image_fills() -> None:
    *_, final_stage = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]+)"', final_stage))
    assert labels.keys() == {"title", "description", "version", "revision", "source"}
    assert labels["description"] == PROJECT["description"]
    # An argument that nobody passes is said to be unknown, instead of an old version.
    arguments = dict(re.findall(r"^ARG (\w+)=(\w+)$", final_stage, re.MULTILINE))
    assert set(arguments.values()) == {"unknown"}
    assert {value for value in labels.values() if value.startswith("$")} == {
        f"${{{name}}}" for name in arguments
    }
    assert set(re.findall(r"--build-arg (\w+)=", (ROOT / "Makefile").read_text())) == {*arguments}


def test_image__installs_with_the_locked_tools_that_build() -> None:
    """The second stage copies the environment only, so the tools stay behind."""
    assert re.findall(r"--require-hashes (?:--target \S+ )?-r (\S+)", DOCKERFILE) == [
        "requirements.lock",
        "requirements-build.lock",
    ]
    assert "PYTHONPATH=/build" in DOCKERFILE
    assert re.findall(r"^COPY --from=build (\S+)", DOCKERFILE, re.MULTILINE) == ["/opt/mosaico"]


def test_dockerignore__includes_all_sources_of_the_image() -> None:
    allowed = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if "!" in line
    }
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    assert {name for line in copied for name in line.split()} <= allowed
