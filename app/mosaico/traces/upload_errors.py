"""Errors of uploads and of files of traces."""

from mosaico.core.errors import Conflict, Invalid, NotFound, Unavailable


class DatasetExists(Conflict):
    """The dataset has an upload for this run already; choose another runName, or send replace=true."""


class DuplicateTrace(Invalid):
    """A trace ID occurs twice; give each trace a unique ID."""


class InvalidTrace(Invalid):
    """A line is not a valid trace; correct it as described in the message."""


class NoTraces(Invalid):
    """The upload has no traces; send one JSON object per line."""


class UploadInFlight(Conflict):
    """Another upload of the same dataset and run is in progress; try again after it."""


class FileReaderBusy(Unavailable):
    """Another file of results is being read; try again in a few seconds."""


class UploadNotFound(NotFound):
    """The upload does not exist; GET /api/v1/local-datasets lists the uploads."""

    code = "dataset-not-found"
