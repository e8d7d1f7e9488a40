"""The command line's terminal, tables, files and API client."""
