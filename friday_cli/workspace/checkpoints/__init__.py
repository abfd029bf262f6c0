"""Saves the content of files before agents change them, outside the workspace, and plans how to restore it."""
