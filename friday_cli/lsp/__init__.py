"""Language servers: what they say of a change, told apart from what was there before."""
