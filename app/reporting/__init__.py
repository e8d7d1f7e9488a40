"""Charts and reports of runs."""
