"""Confidence intervals, hypothesis tests, resampling, power and anomaly detection.

Pure functions: randomness comes from a seed. `verdict`, `intervals`, `multiplicity`, `power` and
`anomaly` need neither numpy nor scipy, so that processes that answer requests may import them; all
other modules belong to processes that compute.
"""
