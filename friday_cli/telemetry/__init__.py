"""OpenTelemetry: spans and metrics that are folded from the log of a session. Only `sdk.py` imports the SDK."""
