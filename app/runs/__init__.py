"""The centre: a benchmark run, from traces to KPI values."""
