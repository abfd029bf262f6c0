"""What `local` is made of: starting and ending processes, holding their output, writing files whole."""
