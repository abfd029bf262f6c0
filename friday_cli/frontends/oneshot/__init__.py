"""The one-shot face: `friday ask`."""
