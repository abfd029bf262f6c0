"""Processes of a workspace: starting and ending them, and capturing their output."""
