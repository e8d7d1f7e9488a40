"""What happened since yesterday: every agent on every benchmark, and what runs now."""
