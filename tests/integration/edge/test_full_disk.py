"""A disk without space for temporary files is a state of the service, not an error of it."""

from pathlib import Path
from typing import IO

import pytest

from tests.support.service import Service

DATASETS = "/api/v1/local-datasets"
TRACE = b'{"traceId": "t-1", "input": "1+1?", "expectedOutput": "2", "output": "two"}\n'


class FullDisk:
    """In the place of the module `tempfile`: the kernel answers each write as on a full disk, also those of a child."""

    @staticmethod
    def SpooledTemporaryFile(max_size: int) -> IO[bytes]:  # noqa: ARG004, N802 - the name of the library
        return FullDisk.TemporaryFile()

    @staticmethod
    def TemporaryFile() -> IO[bytes]:  # noqa: N802 - the name of the library
        return Path("/dev/full").open("w+b", buffering=0)


@pytest.mark.parametrize("module", ["mosaico.core.web.uploads", "mosaico.traces.uploads.encoding"])
def test_upload__full_disk_is_503_and_stores_nothing(
    service: Service, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setattr(f"{module}.tempfile", FullDisk)

    answer = service.client.post(
        DATASETS,
        params={"name": "qa", "runName": "run-1"},
        content=TRACE,
        headers={"Content-Type": "application/x-ndjson"},
    )

    assert (answer.status_code, answer.json()["type"]) == (503, "/problems/unavailable")
    assert "disk" in answer.json()["detail"]
    assert int(answer.headers["Retry-After"]) > 0
    assert service.get("/local-datasets")["items"] == []
