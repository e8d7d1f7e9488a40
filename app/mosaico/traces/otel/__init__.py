"""OpenTelemetry: receives spans over OTLP/HTTP, stores them, and assembles them to traces."""
