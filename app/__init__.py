"""MOSAICO: benchmarks of AI agents, judged every night."""
