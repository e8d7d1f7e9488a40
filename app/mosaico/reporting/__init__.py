"""Charts of runs as SVG, and reports of runs as HTML."""
