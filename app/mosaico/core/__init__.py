"""Code that every domain uses and that is independent of benchmarks."""
