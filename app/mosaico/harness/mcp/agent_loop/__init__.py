"""The agent loop: attempts at tasks, and the conversations of models with tools."""
