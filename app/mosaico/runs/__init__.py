"""Lifecycle of benchmark runs: begin, collect, score, finish, retry, purge."""
