"""Diagnostics of Friday itself: doctor, self-test, log file."""
