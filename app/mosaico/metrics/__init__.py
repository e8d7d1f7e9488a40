"""Measures of single traces, and what a run is worth over all of its traces."""
