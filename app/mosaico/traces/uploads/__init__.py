"""Uploads: the traces of one run of a dataset, sent to this service."""
