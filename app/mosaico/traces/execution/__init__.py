"""Runs a user's own agent over the items of a dataset: items, attempts, limits, result file."""
