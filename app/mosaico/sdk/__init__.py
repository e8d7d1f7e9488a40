"""The Python API for users: `score`, `compare`, `gate`, experiments, clients, and the pytest plugin."""
