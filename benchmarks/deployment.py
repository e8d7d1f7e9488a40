"""A deployment for benchmarks: the API in this process, an own database, worker processes."""

import base64
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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
from tests.support.pgbouncer import pooled_url
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
def pooled_deployment(pool_size: int) -> Iterator[Deployment]:
    """The same behind PgBouncer, which has so many connections to the server."""
    with (
        tempfile.TemporaryDirectory() as folder,
        api_with_database(Path(folder), pool_size) as service,
        deployed_service(service, Path(folder)) as deployment,
    ):
        yield deployment


@contextmanager
def api_with_database(folder: Path, pool_size: int | None = None) -> Iterator[Service]:
    """The API in this process, with an own database in the folder, behind PgBouncer if it has a size."""
    load_plugins()
    with ExitStack() as stack:
        direct_url = stack.enter_context(EmbeddedPostgres(folder / "postgres").own())
        upgrade(direct_url)
        db = Database(direct_url)
        if pool_size is not None:
            url = stack.enter_context(pooled_url(direct_url, pool_size=pool_size))
            db = Database(url, direct_url=direct_url)
        resources = Resources(
            db=db,
            secrets=SecretBox.from_keys([base64.b64encode(secrets.token_bytes(32)).decode()]),
            data_dir=folder,
            options={"langfuse_default_url": "https://cloud.langfuse.com"},
        )
        pool = ProcessPool(1, warm_up=load_metrics)
        with running_service(resources, pool) as service:
            yield service
        pool.close()
        resources.db.dispose()
