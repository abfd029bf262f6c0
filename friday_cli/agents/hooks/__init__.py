"""The hooks of a session: which there are, what they read, how they run, and what their answers do."""
