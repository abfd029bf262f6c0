"""Finds the hosts that a command contacts, as far as its text shows them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from friday_cli.core.permissions.taint import HOST, URL, host_of
from friday_cli.core.protocol.shell_script import UNREAD
from friday_cli.core.text.lazy_regex import pattern

from .readonly_programs import GIT_QUIET, NETWORK, QUIET

MAX_TARGETS = 100
"""Hosts and URLs of one command that are told apart."""
_OPERAND = pattern(
    rf"(?:[^\s/?#@]*@)?({HOST}|[a-z0-9-]+(?=:)|0x[0-9a-f]{{1,8}}(?![^/?#])|\d{{8,10}}(?![^/?#]))(?:[:/?#].*)?", re.I
)
_ADDRESS = pattern(r"(?<![a-z0-9+.-])(?!file:)[a-z][a-z0-9+.-]{0,30}://([^\s/?#]*)", re.I)
_PLAIN = pattern(r"(?:[\w.~%+-]*(?::[\w.~%+-]*)?@)?(?:[^\s@:/?#;'\"<>|()`\\]+|\[[0-9a-f:.]+\])(?::\d*)?", re.I)
"""The part of a URL before its path that all programs read in the same way."""
_AT = pattern(rf"(?<=[\w.+-])@({HOST}):", re.I)
_HOST = pattern(HOST, re.I)
_PROXY_VARIABLE = pattern(r"\b\w{1,20}_proxy=([^\s;|&]+)", re.I)
_OPTION_HOSTS = {
    "curl": pattern(r"(?<!\S)(?:-[a-zA-Z#]*?x|--(?:pro|pre|soc|res|connect-to|doh|ur)[\w-]*)[= ]?(\S+)"),
    **dict.fromkeys(
        ("ssh", "scp", "sftp", "mosh", "rsync"), pattern(r"(?<!\S)-[a-zA-Z0-9]*?(?:[oJWLRe]) ?(\S.{0,200})")
    ),
    **dict.fromkeys(("wget", "wget2"), pattern(r"(?<!\S)(?:-[a-zA-Z]*?e|--exe\w*)[= ]?(\S+)")),
}
"""Options of network programs that name hosts to contact, with their values."""
_OPTION_FILES = {
    "curl": pattern(r"(?<!\S)(?:-[a-zA-Z#]*?K|--conf)"),
    "wget": pattern(r"(?<!\S)(?:-[a-zA-Z]*?i|--(?:inp|conf))"),
    **dict.fromkeys(("ssh", "scp", "sftp"), pattern(r"(?<!\S)-[a-zA-Z0-9]*?F")),
}
"""Options that read further options or addresses from a file."""
_GIT_SSH = pattern(r"\bgit_ssh_command=|\bcore\.sshcommand[ =]", re.I)
_SSH_HOSTS = pattern(r"(?<!\S)-J ?(\S+)|proxyjump[= ]?(\S+)|proxycommand[= ]?([^\s'\"]+(?: [^\s'\"]+){0,2})", re.I)
"""Hosts that ssh contacts on its way, in the command that git runs as ssh."""
_GIT_PROXY = pattern(
    r"\b(?:git_proxy_command|core\.gitproxy|(?:http|remote)\.(?:\S{1,200}\.)?proxy)[ =]['\"]?(\S+)", re.I
)
_DEVICE = pattern(r"/dev/(?:tcp|udp)/([^/\s]+)")


def network_targets(command: str, steps: Sequence[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    """(host, URL or "") of everything `command` contacts; the host is `UNREAD` if a network program does not name it
    literally. `steps`: the forms of each simple command, the plainest first. Package managers, and git with configured
    remotes, are not detected."""
    if all(_is_quiet(forms[0].split()) for forms in steps if forms) and not _DEVICE().search(command):
        return ()
    text = "\n".join((command, *(form for forms in steps for form in forms)))
    found = [(host_of(url), url) for url in URL().findall(text) if not url.lower().startswith("file:")]
    found += [(host.lower(), "") for named in (_AT, _DEVICE) for host in named().findall(text)]
    found += [(host.lower(), "") for value in _PROXY_VARIABLE().findall(text) for host in _HOST().findall(value)]
    values = _GIT_PROXY().findall(text)
    values += [value for groups in _SSH_HOSTS().findall(text) for value in groups] if _GIT_SSH().search(text) else []
    found += [(host.lower(), "") for value in values for host in _HOST().findall(value)]
    for name, *words in filter(None, (form.split() for forms in steps for form in forms)):
        if name not in NETWORK or words in (["--version"], ["--help"]):
            continue
        operands = [word for word in words if not word.startswith("-") and "://" not in word]
        hosts = [m[1].lower() for word in operands if (m := _OPERAND().fullmatch(word))]
        line = " ".join(words)
        values = _OPTION_HOSTS[name]().findall(line) if name in _OPTION_HOSTS else []
        found += [(host, "") for host in hosts]
        found += [(host.lower(), "") for value in values for host in _HOST().findall(value)]
        if name in _OPTION_FILES and _OPTION_FILES[name]().search(line):
            found.append((UNREAD, ""))
        unclear = [word for word in operands if word.count("@") > 1]
        unclear += [part for part in _ADDRESS().findall(line) if not _PLAIN().fullmatch(part)]
        if unclear or not (hosts or URL().search(line)) or "$" in command or "`" in command:
            found.append((UNREAD, ""))
    unique = [(host, url) for host, url in dict.fromkeys(found) if host]
    return (*unique[:MAX_TARGETS], (UNREAD, "")) if len(unique) > MAX_TARGETS else tuple(unique)


def _is_quiet(words: Sequence[str]) -> bool:
    """Whether a simple command contacts no host, even if its arguments contain addresses."""
    if not words or words[0] == "git":
        return not words or (len(words) > 1 and words[1] in GIT_QUIET)
    return words[0] in QUIET and (words[0] != "find" or NETWORK.isdisjoint(words))
