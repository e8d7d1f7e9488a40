"""API keys, roles, rate limits, idempotent requests and the audit log."""
