"""Friday as an agent of other eval frameworks: Inspect and Harbor."""
