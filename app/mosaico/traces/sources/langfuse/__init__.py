"""Trace source for Langfuse: reads experiments (API v4) and dataset runs (API v3), writes scores."""
