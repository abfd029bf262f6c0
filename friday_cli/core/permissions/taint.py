"""Taint tracking: the untrusted text that a session has read, and the outbound calls that need permission because of it.

The state is shared by all agents of a session and folded from its events, so a resumed session has it too:

1. After any agent has read untrusted text (a web page, a web search, an MCP server, a tool of a program, a hook or a skill of the project, the output
   of a command that uses the network), `web_fetch` and network commands to a new host need permission, even if a rule or the mode allows them. A host
   is new until it was contacted, and never new when the person trusts it.
2. A URL that seems to carry data (long encoded text, or text of files that were read) to a host that the person does not
   trust always needs permission.

A person trusts a host by naming it in a message, or by a rule `web_fetch(domain:HOST)`. Mode yolo skips these checks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from ..protocol.events import Envelope, HookRan, InboxMessage, MessageAdded, SkillLoaded, ToolFinished
from ..protocol.shell_script import UNREAD
from ..protocol.tool_info import EXTERNAL_PREFIXES, SERVER_PREFIX, WEB_FETCH, WEB_SEARCH
from ..text.lazy_regex import pattern
from ..text.skill_marks import without_skills
from .patterns import LOCAL_HOST
from .rule import RuleInput
from .rules import Rules

KEPT = 1_000_000
"""Characters of text that URLs are compared with; the oldest are dropped first."""
LONGEST_QUERY = 200
"""Characters of a query above which it counts as carrying data."""
LONGEST_URL = 2_000
"""Characters of a URL above which it counts as carrying data."""
SHARED = 24
"""Consecutive characters of a file in a URL from which on it counts as carrying text of the file."""

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
HOST = rf"{_LABEL}(?:\.{_LABEL})+"
URL = pattern(r"\b[a-z][a-z0-9+.-]{0,30}://[^\s'\"<>|;()`\\]+", re.I)
_AUTHORITY = pattern(r"[a-z][a-z0-9+.-]*://(?:[^/?#@\s]*@)?(\[[0-9a-f:.]+\]|[^/?#:\s]+)", re.I)
_NAMED = pattern(rf"\b{HOST}\b", re.I)
_TOP = pattern(r".*\.(?:com|org|net|edu|gov|io|dev|ai|app|eu|uk|de|fr|ch|nl|jp|info)", re.I)
_ATTACHMENT = pattern(r"\n\n(?:<stdin>|<file path=|<folder path=|\[I ran this command)")
_PUBLIC = pattern(r"\bhttps?://[^\s'\"<>|;()`\\?]+", re.I)
"""A URL without its query. URLs in files are mostly public, so they are not compared with."""
_QUOTED = pattern(r"(?:%[0-9A-Fa-f]{2})+")
_ENCODED = pattern(r"[A-Za-z0-9+]{32,}")
_READ = frozenset((HookRan, InboxMessage, MessageAdded, SkillLoaded, ToolFinished))


class TaintTracker:
    """The state of the module's rules. `apply` must be called with each event of the session, in order.
    `outbound(command)` are the hosts that an earlier shell command contacted: (host, URL or "")."""

    def __init__(self, outbound: Callable[[str], Sequence[tuple[str, str]]]) -> None:
        self._outbound = outbound
        self.source = ""
        """Where the first untrusted text came from, "" while none was read."""
        self._contacted: set[str] = set()
        self._trusted_hosts: set[str] = set()
        self._changed: set[str] = set()
        self._facts: dict[str, ToolFinished] = {}
        self._files = _RecentTexts()
        self._links = _RecentTexts()

    # ---- the fold ----------------------------------------------------------------------

    def apply(self, envelope: Envelope) -> None:
        """Update the state by an event."""
        event = envelope.event
        if type(event) not in _READ:
            return
        if isinstance(event, InboxMessage) and event.source == "person":
            self._read_message(event.text)
        elif isinstance(event, HookRan):
            if event.source == "project" and event.decision and not self.source:
                self.source = f"the project's hook {event.hook}"
        elif isinstance(event, ToolFinished):
            self._tool_finished(event)
        elif isinstance(event, SkillLoaded):
            if event.project and not self.source:
                self.source = f"the project's skill {event.name}"
        elif isinstance(event, MessageAdded):
            message = event.message
            if message.role == "user" and message.source == "person":
                self._read_message(message.text)
            for result in message.results:
                self._tool_result(self._facts.pop(result.call_id, None), result.text)

    def _read_message(self, text: str) -> None:
        if not self.source and f'\n\n<file path="{SERVER_PREFIX}' in text:
            self.source = "an MCP server"
        words = without_skills(text)
        if "\n\n" in words:
            words = _ATTACHMENT().split(words, maxsplit=1)[0]  # attached files are not the person's text
        self._links.add(words)
        if "://" in words:
            self._trusted_hosts.update(host_of(url) for url in URL().findall(words))
        if "." in words:
            self._trusted_hosts.update(name.lower() for name in _NAMED().findall(words) if _TOP().fullmatch(name))

    def _tool_finished(self, event: ToolFinished) -> None:
        facts = event.facts
        self._facts[event.call_id] = event
        self._changed.update(change.path for change in facts.files)
        self._contacted.update(host_of(url) for url in facts.urls)
        if facts.urls or facts.found:  # fetching them again reveals nothing new
            self._links.add("\n".join((*facts.urls, *facts.found)))
        hosts = [host for run in facts.commands for host, _ in self._outbound(run.command)]
        self._contacted.update(host for host in hosts if host != UNREAD)
        if not self.source and event.status in ("ok", "error"):
            if facts.urls:
                self.source = host_of(facts.urls[0])
            elif facts.found or event.tool == WEB_SEARCH:
                self.source = "a web search"
            elif event.tool.startswith(EXTERNAL_PREFIXES):
                self.source = event.tool
            elif hosts:
                self.source = f"a command that contacted {hosts[0]}"

    def _tool_result(self, ran: ToolFinished | None, text: str) -> None:
        """Keep the text of a tool result. URLs in text that the session did not write are known links."""
        facts = ran.facts if ran else None
        if facts is not None and (facts.urls or facts.found):
            self._links.add(text)
            return
        self._files.add(_PUBLIC().sub(" ", text) if "://" in text else text)
        if facts is not None and facts.read and self._changed.isdisjoint(facts.read):
            self._links.add(text)

    # ---- the question ------------------------------------------------------------------

    def approval_reason(self, call: RuleInput, arguments: object, rules: Rules) -> str:
        """Why a call that `rules` allow still needs the permission of a person, "" when it need not."""
        if rules.effective_mode == "yolo":
            return ""
        if call.effect == "net":
            urls = [text for text in _strings(arguments) if "://" in text]
            targets = [(host_of(url), url) for url in urls]
        else:
            targets = list(call.script.hosts) if call.script else []
        for host, url in targets:
            if LOCAL_HOST().fullmatch(host) or rules.names_host(host):
                continue
            if any(host == name or host.endswith("." + name) for name in self._trusted_hosts):
                continue
            allow = f". Mention {host} in a message, or allow {WEB_FETCH}(domain:{host}), to skip this"
            if why := self._data_in_url(url):
                return f"this URL goes to {host}, which you did not mention, and {why}{allow}"
            if self.source and host not in self._contacted:
                skip = "" if host == UNREAD else allow
                return f"untrusted content was read ({self.source}) and {host} was not contacted before{skip}"
        return ""

    def _data_in_url(self, url: str) -> str:
        """The data that a URL seems to carry, as text; "" for none."""
        rest = url.partition("://")[2].partition("/")[2] or url.partition("?")[2]
        if not rest or url.partition("#")[0] in self._links:
            return ""
        if len(url) > LONGEST_URL:
            return "it is long"
        if len(rest.partition("?")[2]) > LONGEST_QUERY:
            return "its query is long"
        words = _unquoted(rest)
        if any(_is_encoded(run) for run in _ENCODED().findall(words)):
            return "it contains long encoded text"
        return "it contains text that was read here" if self._files.shares(words) else ""


class _RecentTexts:
    """The newest texts, each once, up to `KEPT` characters in total."""

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}
        self._size = 0

    def add(self, text: str) -> None:
        text = text[:KEPT]
        if text not in self._texts:
            self._size += len(text)
        self._texts.pop(text, None)
        self._texts[text] = None
        while self._size > KEPT:
            oldest = next(iter(self._texts))
            self._size -= len(oldest)
            del self._texts[oldest]

    def __contains__(self, part: str) -> bool:
        return any(part in text for text in self._texts)

    def shares(self, words: str) -> bool:
        """Whether one of the texts contains `SHARED` consecutive characters of `words`. Searches for half as long steps first."""
        step = SHARED // 2
        for start in range(0, len(words) - step + 1, step):
            if words[start : start + step] in self:
                near = range(max(0, start - step), min(start, len(words) - SHARED) + 1)
                if any(words[at : at + SHARED] in self for at in near):
                    return True
        return False


def _is_encoded(run: str) -> bool:
    """Whether consecutive letters and digits look like encoded data. A digest of up to 64 hex digits does not."""
    if re.fullmatch(r"[0-9a-fA-F]+", run):
        return len(run) > 64
    return all(re.search(kind, run) for kind in ("[a-z]", "[A-Z]", "[0-9]"))


def _unquoted(text: str) -> str:
    """A part of a URL with its escapes decoded."""
    return _QUOTED().sub(
        lambda run: bytes.fromhex(run[0].replace("%", "")).decode("utf-8", "replace"), text.replace("+", " ")
    )


def host_of(url: str) -> str:
    """The host of a URL in lower case, "" for none."""
    found = _AUTHORITY().match(url)
    return found[1].lower().rstrip(".") if found else ""


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
