"""Who may do what: API keys, roles, and requests that are carried out once."""
