"""What services count an input as, and what is reserved for it."""

from __future__ import annotations

from friday_cli.core.limits.input_counts import ENOUGH, MARGIN, MOST_MARGIN, InputCounts, dearest
from friday_cli.core.protocol.messages import Usage


def free(usage: Usage) -> None:
    return None


SERVICE = ("https://api.example.org", "model")


def test_the_largest_count_of_a_service_is_reserved_from_then_on() -> None:
    counts = InputCounts()
    sent = Usage(input=1000, cache_read=500)
    assert counts.most(*SERVICE, sent, free) == Usage(cache_write=round(1000 * MARGIN), cache_read=500)
    for estimated, counted in ((1000, 1700), (1000, 900), (1000, 1500)):
        counts.add(*SERVICE, estimated, counted)
    assert counts.most(*SERVICE, sent, free) == Usage(cache_write=1700, cache_read=500)
    assert counts.margin("https://other.example.org", "model") == MARGIN


def test_a_short_request_and_an_impossible_count_do_not_set_it() -> None:
    counts = InputCounts()
    counts.add(*SERVICE, ENOUGH - 1, 5 * ENOUGH)
    assert counts.margin(*SERVICE) == MARGIN
    counts.add(*SERVICE, ENOUGH, 1000 * ENOUGH)
    assert counts.margin(*SERVICE) == MOST_MARGIN


def test_new_input_costs_what_is_dearer() -> None:
    def price(usage: Usage) -> float:
        return usage.input + 1.25 * usage.cache_write + 0.1 * usage.cache_read

    assert dearest(100, 7, price) == Usage(cache_write=100, cache_read=7)
    assert dearest(100, 7, lambda usage: usage.input) == Usage(input=100, cache_read=7), "nothing is known of a cache"
