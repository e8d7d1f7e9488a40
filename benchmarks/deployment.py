"""A deployment for benchmarks: the API in this process, an own database, worker processes."""

import base64
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.core.db import Database
from app.core.encryption import SecretBox
from app.core.migrations import upgrade
from app.core.resources import Resources
from app.jobs.process_pool import ProcessPool
from app.metrics.registry import load_metrics
from app.plugins import load_plugins
from app.postgres.server import EmbeddedPostgres
from tests.support.deployment import Deployment, deployed_service
from tests.support.service import Service, running_service


@contextmanager
def deployment_with_workers() -> Iterator[Deployment]:
    """A service with the plugins and worker processes of the kill tests."""
    with (
        tempfile.TemporaryDirectory() as folder,
        api_with_database(Path(folder)) as service,
        deployed_service(service, Path(folder)) as deployment,
    ):
        yield deployment


@contextmanager
def api_with_database(folder: Path) -> Iterator[Service]:
    """The API in this process, with an own database in the folder."""
    load_plugins()
    with EmbeddedPostgres(folder / "postgres").acquire() as lease:
        upgrade(lease.url)
        resources = Resources(
            db=Database(lease.url),
            secrets=SecretBox.from_keys([base64.b64encode(secrets.token_bytes(32)).decode()]),
            data_dir=folder,
            options={"langfuse_default_url": "https://cloud.langfuse.com"},
        )
        pool = ProcessPool(1, warm_up=load_metrics)
        with running_service(resources, pool) as service:
            yield service
        pool.close()
        resources.db.dispose()
