"""`ot-bench`: models and MCP servers, evaluated from YAML files."""
