"""Opens and runs sessions."""
