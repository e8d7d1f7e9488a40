"""Outbound HTTP: clients, network policy, throttle."""
