"""Model clients over the SDKs of providers: turns of agents, completions and embeddings."""
