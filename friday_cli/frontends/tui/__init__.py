"""The chat in the terminal: a frontend over `Session.events()` and `SessionView.apply`. `run.chat` opens it."""
