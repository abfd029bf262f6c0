"""Play a scene to its end and say what was wrong with it."""

from __future__ import annotations

from collections import Counter

from tests.virtual import Stuck, run

from .checks import count, faults_of, reopened
from .scene import Scene


def play(seed: int) -> tuple[list[str], Counter[str]]:
    """What was wrong with the scene of a seed, a deadlock or a crash of the engine included, and what it reached."""
    try:
        scene = run(_play(seed))
    except Stuck as stuck:
        return [f"a deadlock: {stuck}"], Counter()
    except Exception as error:
        return [f"{type(error).__name__} came out: {error}"], Counter()
    return scene.broken, scene.reached


async def _play(seed: int) -> Scene:
    scene = Scene(seed)
    await scene.play()
    scene.broken = faults_of(scene)
    scene.broken += await reopened(scene)
    count(scene, scene.journal.envelopes)
    return scene
