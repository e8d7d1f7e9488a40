"""Confidence intervals, the test of a change, power, and detectors of anomalies.

Pure functions: randomness comes from a seed. Processes that answer requests may import the modules that do not name
numpy in their first lines.
"""
