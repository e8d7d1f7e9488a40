"""The built-in metrics: one file a family, found by folder and imported by nobody."""
