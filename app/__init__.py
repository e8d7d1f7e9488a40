"""MOSAICO: measures AI agents and compares each run with its baseline."""
