"""Benchmark runs: their lifecycle from traces to KPI values."""
