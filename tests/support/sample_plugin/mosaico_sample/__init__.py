"""A separate distribution whose plugins extend the product."""
