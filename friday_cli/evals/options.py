"""What makes a batch an eval, beside its suite."""

from __future__ import annotations

import msgspec

from friday_cli.map.job import MapJob


class EvalOptions(msgspec.Struct, frozen=True):
    """The options of the job of an eval."""

    arms: dict[str, str]
    """The flags of each arm by its name."""
    trials: int
    """How often each arm tries each task."""
    seed: int
    """Decides the order of the trials, and chance in statistics."""

    @classmethod
    def of(cls, job: MapJob) -> EvalOptions:
        """Those of a job that `job` has made."""
        return msgspec.convert(job.options, cls)

    def job(self, folder: str, suite: str, *, cost: float | None, parallel: int) -> MapJob:
        """The batch of these trials in a folder, for at most `cost` US dollars."""
        options = msgspec.to_builtins(self)
        return MapJob(folder, "eval", "eval", suite, "", cost, parallel=parallel, options=options)
