"""Background work: a thin adapter over procrastinate, in the same Postgres as everything else."""
