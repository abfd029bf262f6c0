"""The tree of agents: starting, running, resuming and stopping them."""
