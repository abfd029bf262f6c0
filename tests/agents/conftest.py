from __future__ import annotations

from tests.session.conftest import harness as harness
