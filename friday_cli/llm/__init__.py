"""Model services: transport, providers, models."""
