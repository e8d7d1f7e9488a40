"""Decides whether a run may pass, from stored runs or from files of traces."""
