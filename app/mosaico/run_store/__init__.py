"""Stored results of runs: tables, frozen plans and typed reads. Lower than everything that reads runs."""
