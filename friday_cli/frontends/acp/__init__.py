"""`friday acp`: the tree of agents in editors, by the Agent Client Protocol."""
