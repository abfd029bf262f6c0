"""What a person or a program sees: each frontend is a fold over `Session.events()`."""
