"""Budgets, run slots, rate limits and retries."""
