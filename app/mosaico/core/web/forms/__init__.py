"""Forms of pages from the schemas of the API: rendered, read and checked."""
