"""Built-in evaluators; the registry loads every module of this package."""
