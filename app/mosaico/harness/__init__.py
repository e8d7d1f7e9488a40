"""Two harnesses that evaluate models: bash tasks (`bash`) and MCP servers (`mcp`)."""
