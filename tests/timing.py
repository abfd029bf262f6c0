"""Tests that need real time, on machines of any speed.

Some requirements are about time: a silent service is given up, a progress line is shown while a tool runs. How long such a
test must wait depends on the machine: a short wait fails by chance on a busy one, a long wait makes the suite slow. So the
test multiplies its times by the fixture `pace`, and is run again with longer times if the short ones were not enough; the
summary then names it. It fails if the longest times are not enough either.
"""

from __future__ import annotations

import pytest

paced = pytest.mark.paced
"""Marks a test that takes the fixture `pace`. `tests/conftest.py` runs it at each of `PACES` until it passes."""
