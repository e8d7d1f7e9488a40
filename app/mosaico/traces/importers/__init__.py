"""Importers of result files: one file for each format."""
