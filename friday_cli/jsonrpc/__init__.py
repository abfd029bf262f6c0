"""JSON-RPC 2.0 with another program: a connection in both directions, and the two ways in which messages are told apart."""
