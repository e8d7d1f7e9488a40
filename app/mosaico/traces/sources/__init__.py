"""Trace sources; each file registers one and nothing imports it."""
