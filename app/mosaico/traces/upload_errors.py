"""Errors of uploads and of files of traces."""

from mosaico.core.errors import Conflict, Invalid, NotFound, TooLarge, Unavailable


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
    """Other uploads are being read; try again in a few seconds."""


class UploadTooLarge(TooLarge):
    """Reading the upload takes more memory or time than its limit; split it, or raise the limit."""


class UploadReaderLost(Unavailable):
    """The process that read the upload ended; try again, and split the upload if it ends again."""


class UploadNotFound(NotFound):
    """The upload does not exist; GET /api/v1/local-datasets lists the uploads."""

    code = "dataset-not-found"


class UploadTraceNotFound(NotFound):
    """The upload has no trace with this ID; GET /api/v1/local-datasets/{datasetId}/items lists its items."""
