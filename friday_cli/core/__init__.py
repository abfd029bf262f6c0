"""The engine: knows no disk, no network and no screen. Standard library and msgspec only."""
