"""Copies of the whole database in one file, and a database made from such a file."""
