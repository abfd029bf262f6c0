"""Which hosts a command talks to, as far as its text tells."""

from __future__ import annotations

import re
from collections.abc import Sequence

from friday_cli.core.permissions.taint import HOST, UNREAD, URL, host_of

from .readonly_programs import GIT_QUIET, NETWORK, QUIET

_OPERAND = re.compile(rf"(?:[\w.+-]+@)?({HOST}|[a-z0-9-]+(?=:))(?::.*|/.*)?", re.I)
_AT = re.compile(rf"\b[\w.+-]+@({HOST}):", re.I)
_DEVICE = re.compile(r"/dev/(?:tcp|udp)/([^/\s]+)")


def outbound(command: str, steps: Sequence[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    """(host, URL or "") of everything `command` would talk to; `UNREAD` for a network program whose host is not in plain
    words. `steps` are the forms of each simple command in it, the plainest first.

    Package managers and git with the remotes they know are not seen.
    """
    if all(_is_quiet(forms[0].split()) for forms in steps if forms) and not _DEVICE.search(command):
        return ()
    text = "\n".join((command, *(form for forms in steps for form in forms)))
    found = [(host_of(url), url) for url in URL().findall(text) if not url.lower().startswith("file:")]
    found += [(host.lower(), "") for way in (_AT, _DEVICE) for host in way.findall(text)]
    for name, *words in filter(None, (form.split() for forms in steps for form in forms)):
        if name not in NETWORK or words in (["--version"], ["--help"]):
            continue
        operands = [word for word in words if not word.startswith("-") and "://" not in word]
        hosts = [m[1].lower() for word in operands if (m := _OPERAND.fullmatch(word))]
        found += [(host, "") for host in hosts]
        if not (hosts or URL().search(" ".join(words))) or "$" in command or "`" in command:
            found.append((UNREAD, ""))
    return tuple((host, url) for host, url in dict.fromkeys(found) if host)


def _is_quiet(words: Sequence[str]) -> bool:
    """Whether a simple command talks to no host, whatever addresses are in it."""
    if not words or words[0] == "git":
        return not words or (len(words) > 1 and words[1] in GIT_QUIET)
    return words[0] in QUIET and (words[0] != "find" or NETWORK.isdisjoint(words))
