"""Messages to people and programs: the inbox, and an outbox that brings them everywhere else."""
