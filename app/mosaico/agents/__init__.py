"""The agents that are benchmarked, and where their traces can be read."""
