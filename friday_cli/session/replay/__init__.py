"""Replays recorded sessions: the real engine, whose models, tools and people answer from a log."""
