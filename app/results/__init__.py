"""What runs store: tables, the frozen plan, and typed reads. Lower than every reader of runs."""
