"""The formats of reports, for the service and both harnesses: HTML, Markdown, JUnit XML, CSV, aligned text."""
