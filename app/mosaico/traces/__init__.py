"""Traces of agents: their sources, and the collections of runs."""
