"""The paths of web pages that other parts of the service link to, such as notifications."""


def run_page_path(run_id: str) -> str:
    """The page of a run, below the public URL of the service."""
    return f"/runs/{run_id}"
