"""Compares a run with its baseline: item tables, baselines, intervals, verdicts, power."""
