"""Evaluates alert rules and incidents for a run, from stored values, before any write."""
