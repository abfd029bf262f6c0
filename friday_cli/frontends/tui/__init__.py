"""The chat in the terminal: a face over `Session.events()` and `State.apply`. `run.chat` opens it."""
