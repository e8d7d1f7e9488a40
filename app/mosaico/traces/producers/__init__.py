"""Trace producers: what runs an agent or a model and makes traces of its work."""
