"""`friday sessions fork`: going on from an earlier message."""

from __future__ import annotations

import asyncio

import typer

from . import complete

_NAME = typer.Argument(
    metavar="ID", help="The session: any unique beginning of its id.", autocompletion=complete.sessions, show_default=False
)  # fmt: skip
_JSON = typer.Option(False, "--json", help="Print JSON for programs.")


def fork(
    name: str = _NAME,
    at: int | None = typer.Option(
        None, "--at", metavar="N", min=1, show_default=False,
        help="Take what came before your N-th message; all of it where this is left out.",
    ),
    as_json: bool = _JSON,
) -> None:  # fmt: skip
    """Make a new session that begins with the history of another.

    The other one stays as it is, and may be at work. Go on in the new one with `friday -r ID`.
    """
    from .output import remark, show, show_json

    made = asyncio.run(_fork(name, at))
    if as_json:
        show_json({"session_id": made})
        return
    show(made)
    remark(f"go on in it with `friday -r {made[:8]}`")


async def _fork(name: str, at: int | None) -> str:
    from ..core.errors import UsageError
    from ..past import fork
    from .records import find, opened

    async with opened() as store:
        session, agent = await find(store, name)
        if agent:
            raise UsageError("A session is forked with all its agents.", hint=f"Write {session[:8]}.")
        assert store is not None
        return await fork(store, session, at=at)
