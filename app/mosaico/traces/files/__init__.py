"""Files of results: their formats, and their rows as traces."""
