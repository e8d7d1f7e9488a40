"""The embedded Postgres server: programs, data folder, launch, owner, recovery, shutdown."""
