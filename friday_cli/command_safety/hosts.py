"""Finds the hosts that a command contacts, as far as its text shows them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from friday_cli.core.permissions.taint import HOST, UNREAD, URL, host_of

from .readonly_programs import GIT_QUIET, NETWORK, QUIET

_OPERAND = re.compile(rf"(?:[\w.+-]+@)?({HOST}|[a-z0-9-]+(?=:))(?::.*|/.*)?", re.I)
_AT = re.compile(rf"\b[\w.+-]+@({HOST}):", re.I)
_DEVICE = re.compile(r"/dev/(?:tcp|udp)/([^/\s]+)")


def network_targets(command: str, steps: Sequence[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    """(host, URL or "") of everything `command` contacts; the host is `UNREAD` if a network program does not name it
    literally. `steps`: the forms of each simple command, the plainest first. Package managers, and git with configured
    remotes, are not detected."""
    if all(_is_quiet(forms[0].split()) for forms in steps if forms) and not _DEVICE.search(command):
        return ()
    text = "\n".join((command, *(form for forms in steps for form in forms)))
    found = [(host_of(url), url) for url in URL().findall(text) if not url.lower().startswith("file:")]
    found += [(host.lower(), "") for pattern in (_AT, _DEVICE) for host in pattern.findall(text)]
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
    """Whether a simple command contacts no host, even if its arguments contain addresses."""
    if not words or words[0] == "git":
        return not words or (len(words) > 1 and words[1] in GIT_QUIET)
    return words[0] in QUIET and (words[0] != "find" or NETWORK.isdisjoint(words))
