"""Gates: whether a run may pass, offline for files of traces or for stored runs."""
