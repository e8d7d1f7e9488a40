"""Background jobs: a thin adapter over procrastinate, with the queue in the same Postgres."""
