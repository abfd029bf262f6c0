"""The chat as linear text (`--plain`)."""
