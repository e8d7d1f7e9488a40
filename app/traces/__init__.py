"""What an agent did: traces, where they come from, and how a run collects them."""
