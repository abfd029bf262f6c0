"""The keys of a ladder in a profile: `models`, `check` and `ladder`."""

from __future__ import annotations

from .schema import ProfileFields


def read(fields: ProfileFields) -> tuple[tuple[str, ...], str]:
    """The models of a ladder and the command that decides; ((), "") without one. Raises FileError."""
    check = fields.text("check")
    if "models" not in fields.values:
        if check:
            raise fields.fail("check", "decides between models, and there are none.", "Add models: [a, b].")
        if "ladder" in fields.values:
            raise fields.fail("ladder", "is about several models, and there are none.", "Add models: [a, b].")
        return (), ""
    models = tuple(fields.entries("models"))
    if len(models) < 2 or not all(models):
        raise fields.fail("models", "a ladder needs at least two models.", "Write [cheap, expensive], or use model.")
    if not check:
        raise fields.fail("models", "a ladder needs a check.", 'Add a command such as check: "make test".')
    for other in ("model", "external"):
        if other in fields.values:
            raise fields.fail(other, "cannot be used together with models.", "Remove one of them.")
    if "ladder" in fields.values and fields.values.get("isolation") != "worktree":
        raise fields.fail("ladder", "fresh needs a worktree of its own.", "Add isolation: worktree.")
    return models, check
