"""Tests of what only time can show, on machines of any speed.

Some promises are about time itself: a silent service is given up, a progress line is on the screen while a tool runs. A
test of one needs a real wait, and how long that must be depends on the machine: too short fails by chance on a busy one,
long enough for every machine makes the suite slow. Such a test multiplies its times by the fixture `pace` and is run
again with longer ones where the short ones were not enough; the summary names it then. It fails when the longest are
not enough either.
"""

from __future__ import annotations

import pytest

paced = pytest.mark.paced
"""Marks a test that takes the fixture `pace`. `tests/conftest.py` runs it at each of `PACES` until it passes."""
