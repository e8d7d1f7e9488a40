"""`mosaico mcp`: a server of the Model Context Protocol over the API, for coding agents."""
