"""The documentation as one site."""
