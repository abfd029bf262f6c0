"""What `paced` tries again and what it does not."""

from __future__ import annotations

import pytest

from tests.timing import PACES, paced


def test_it_is_tried_with_longer_times_until_they_do() -> None:
    tried: list[float] = []

    @paced
    def needs_a_while(least: float, pace: float) -> None:
        tried.append(pace)
        assert pace >= least

    needs_a_while(PACES[0])
    assert tried == [PACES[0]]
    needs_a_while(PACES[-1])
    assert tried == [PACES[0], *PACES]
    with pytest.raises(AssertionError):
        needs_a_while(PACES[-1] + 1)


async def test_so_is_one_that_waits() -> None:
    @paced
    async def never(pace: float) -> None:
        with pytest.raises(ZeroDivisionError):
            raise KeyError(pace)

    with pytest.raises(KeyError, match=str(PACES[-1])):
        await never()
