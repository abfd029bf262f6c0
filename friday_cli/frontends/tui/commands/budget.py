"""`/budget`: the caps over all sessions, and what is used of them."""

from __future__ import annotations

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.format import pluralize
from friday_cli.session import spending

from .command_output import code, table
from .context import CommandContext


async def run(chat: CommandContext, rest: str) -> None:
    """Show the caps; set one, for all or for a service or key; remove all. Raises FridayError."""
    words = rest.split()
    match words:
        case []:
            pass
        case ["clear"]:
            chat.say_note(f"{pluralize(await spending.clear(), 'cap')} removed.")
            return
        case [name, amount] | [name, amount, _]:
            try:
                most = float(amount.lstrip("$").replace(",", ""))
            except ValueError:
                raise UsageError(f"{amount!r} is not a number. Write /budget daily 20.") from None
            await spending.set_caps({name: most}, words[2] if len(words) > 2 else "")
        case _:
            raise UsageError(
                f"Write /budget, /budget CAP AMOUNT [KEY] or /budget clear; caps: {', '.join(spending.AXES)}."
            )
    chat.show_card(card(await spending.read()))


def card(found: spending.Spending) -> str:
    """The caps, and what each key paid."""
    caps = [(row.name, code(row.payer) or "all", *row.amounts()) for row in found.caps]
    keys = [(code(row.service), code(row.key), *row.amounts()) for row in found.keys]
    first = table(("cap", "for", "most", "used", "held", "left"), caps)
    parts = [first if caps else "No caps. `/budget daily 20` lets all your sessions use $20 a day."]
    titles = ("service", "key", "today", "tokens", "this week", "tokens")
    parts += [table(titles, keys)] if keys else []
    parts += [f"{waiting.text()}." for waiting in found.waiting]
    return "**Budget of all sessions**\n\n" + "\n\n".join(parts)
