"""Built-in metrics, one file per family; the registry finds them, no module imports them."""
