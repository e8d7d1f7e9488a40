"""MCP servers: connections, processes and the pool of an evaluation."""
