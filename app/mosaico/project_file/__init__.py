"""The file `mosaico.yaml`: endpoints, agents, benchmarks and what belongs to them, as one text."""
