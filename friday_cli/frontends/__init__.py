"""What a person or a program sees: each face is a fold over `Session.events()`."""
