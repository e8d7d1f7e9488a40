"""KPI values of runs: evaluation, history, and the language in which they are written."""
