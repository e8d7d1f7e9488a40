"""KPI values of runs: evaluation, history and verdicts."""
