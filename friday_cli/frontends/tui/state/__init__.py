"""What the chat remembers between starts."""
