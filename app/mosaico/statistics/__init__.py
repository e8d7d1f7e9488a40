"""Confidence intervals, the test of a change, power, and detectors of anomalies.

Pure functions: randomness comes from a seed. `verdict_rules` and `intervals` need neither numpy nor
scipy, so that processes that answer requests may import them; the other modules say in their first
lines what they need.
"""
