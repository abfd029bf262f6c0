"""Key bindings of the chat."""
