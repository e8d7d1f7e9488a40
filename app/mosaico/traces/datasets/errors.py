"""Errors of datasets."""

from mosaico.core.errors import Conflict, Invalid, NotFound


class DatasetNotFound(NotFound):
    """The dataset does not exist; GET /api/v1/datasets lists the datasets."""

    code = "unknown-dataset"


class VersionNotFound(NotFound):
    """The dataset has no such version; GET /api/v1/datasets/{setId}/versions lists its versions."""


class ItemNotFound(NotFound):
    """The dataset has no item with this ID; GET /api/v1/datasets/{setId}/items lists its items."""


class DatasetNameTaken(Conflict):
    """A dataset with this name exists; edit it, or choose another name."""


class EditConflict(Conflict):
    """Somebody else has changed an item of this edit since its version; read the items again and repeat the edit."""


class ItemExists(Conflict):
    """The dataset has another item with this ID; edit it, or choose another `itemId`."""


class UnusableItems(Invalid):
    """The items cannot be stored; correct them as the message says."""


class UnreadableItems(Invalid):
    """The file has no items that can be read; correct it as the message says."""
