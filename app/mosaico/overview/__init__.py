"""The overview: the last verdict of every agent and benchmark, and the runs in progress."""
