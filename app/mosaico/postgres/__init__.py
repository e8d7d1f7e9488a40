"""The embedded Postgres server: programs, data folder, launch, sharing, recovery, shutdown."""
