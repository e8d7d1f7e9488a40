"""Pages of runs: the list, one run, its traces, two runs side by side."""
