"""The widgets of the chat."""

WIDE, NARROW = 100, 80
"""Cells of a screen from which on the panel is beside the chat, and below which it always fills the screen."""
