"""Comparison of runs with a baseline: item matrices, verdicts, flipped items, power."""
