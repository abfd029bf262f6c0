"""`friday agents` in a terminal: all sessions of this person, live."""
