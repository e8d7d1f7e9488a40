"""The items of runs: their values, their attributes, and which of them changed."""
