"""What every domain stands on and what knows nothing of benchmarks."""
