"""The one-shot frontend: `friday ask`."""
