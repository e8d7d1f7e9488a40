"""A deployment for benchmarks: the API in this process, an own database, worker processes."""

import base64
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mosaico.core.db import Database
from mosaico.core.encryption import SecretBox
from mosaico.core.migrations import upgrade
from mosaico.core.resources import Resources
from mosaico.jobs.process_pool import ProcessPool
from mosaico.metrics.registry import load_metrics
from mosaico.plugin_loading import load_plugins
from mosaico.postgres.server import EmbeddedPostgres
from tests.support.deployment import Deployment, deployed_service
from tests.support.service import Service, running_service


@contextmanager
def deployment_with_workers() -> Iterator[Deployment]:
    """A service with the plugins and worker processes of the kill tests."""
    with (
        tempfile.TemporaryDirectory() as folder,
        _api_with_database(Path(folder)) as service,
        deployed_service(service, Path(folder)) as deployment,
    ):
        yield deployment


@contextmanager
def _api_with_database(folder: Path) -> Iterator[Service]:
    """The API in this process, with an own database in the folder."""
    load_plugins()
    with EmbeddedPostgres(folder / "postgres").own() as url:
        upgrade(url)
        resources = Resources(
            db=Database(url),
            secrets=SecretBox.from_keys([base64.b64encode(secrets.token_bytes(32)).decode()]),
            data_dir=folder,
            options={"langfuse_default_url": "https://cloud.langfuse.com"},
        )
        pool = ProcessPool(1, warm_up=load_metrics)
        with running_service(resources, pool) as service:
            yield service
        pool.close()
        resources.db.dispose()
