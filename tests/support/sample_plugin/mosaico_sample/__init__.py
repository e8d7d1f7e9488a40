"""A distribution that extends the product from outside."""
