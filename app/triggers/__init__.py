"""What starts runs from outside: signed webhooks, and events that a benchmark waits for."""
