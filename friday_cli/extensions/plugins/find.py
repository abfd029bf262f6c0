"""Finds the plugins of a session. Without plugins nothing more is imported."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from friday_cli.system.paths import config_dir

from .places import IN_PROJECT, STORE

if TYPE_CHECKING:
    from ..trust import Trust
    from .installed import Plugins


def find_plugins(project: Trust | None, env: Mapping[str, str] | None = None) -> Plugins | None:
    """The plugins of a session, None if there are none: then nothing is read or imported."""
    theirs = project is not None and project.ok and any(name.startswith(IN_PROJECT) for name in project.files)
    if not theirs and not os.path.exists(config_dir(env) / STORE):
        return None
    from .installed import load

    return load(project, env)
