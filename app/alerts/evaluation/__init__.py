"""What a run means for alert rules and incidents, decided from stored values before any write."""
