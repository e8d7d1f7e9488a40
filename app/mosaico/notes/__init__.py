"""What people write down about runs, items and incidents, with their name and the time."""
