"""Says in plain words why there is no connection."""

from __future__ import annotations

import os


def no_connection(failure: str) -> str:
    """Why there is no connection, without the numbers of the system and the words of a library."""
    if "deadline exceeded" in failure:  # anyio's own words
        return "no answer in time"
    number, _, words = failure.removeprefix("[Errno ").partition("] ")
    if not words or not number.lstrip("-").isdigit():
        return failure
    if int(number) > 0:
        return os.strerror(int(number)).lower()
    return "its name cannot be looked up"  # negative numbers are those of getaddrinfo
