"""Benchmarks: a dataset, the metrics, and the KPI formulas over them."""
