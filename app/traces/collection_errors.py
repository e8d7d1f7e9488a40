"""Why a run cannot collect its traces, besides the errors of Langfuse; `docs/errors.md` lists the codes."""

from app.traces.registry import CollectionFailed


class AmbiguousUpload(CollectionFailed):
    """Several uploads of the dataset name no agent; upload the traces with `agentId`, or start the run
    with the `runName` of its upload.
    """


class ClusterFieldUnknown(CollectionFailed):
    """No item has the `clusterField` of the benchmark; correct it, or set it to null."""


class CommandsNotAllowed(CollectionFailed):
    """The workers may not run the command of the benchmark; ask the operator to list it in the file of
    MOSAICO_AGENT_COMMANDS.
    """


class DatasetChanged(CollectionFailed):
    """The dataset was changed during the run; start a new run."""


class HarnessNotConfigured(CollectionFailed):
    """The workers have no folder of datasets; set MOSAICO_HARNESS_DIR for them."""


class ModelRefused(CollectionFailed):
    """The provider rejects the requests for the model; correct the key or the model, then retry the run."""


class NoModel(CollectionFailed):
    """The harness settings of the benchmark do not fit its dataset; set `harness` as the message says."""


class NoModelAnswer(CollectionFailed):
    """No model answered any task; correct the cause in the message, then retry the run."""


class UnsupportedFilter(CollectionFailed):
    """The source cannot filter as `production.filters` asks; remove the filter in the message."""
