"""What every browser and probe meets: request bodies, headers, API pages, health, metrics."""
