"""Commands of runs: start and watch runs, read their traces, run an agent, export rows."""
