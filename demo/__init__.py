"""The demonstration of `make demo`: a handbook, an agent that answers from it, and its traces."""
