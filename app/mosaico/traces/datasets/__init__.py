"""Datasets: items with versions, which people edit here and runs test."""
