"""What every browser and probe meets: headers, API pages, health, metrics."""
