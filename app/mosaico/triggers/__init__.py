"""Triggers start runs on outside events: signed webhooks, Langfuse events, changes and new runs."""
