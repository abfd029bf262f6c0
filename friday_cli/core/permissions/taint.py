"""What strangers' text a session has read, and which outbound actions a person is asked about because of it.

One rule for all agents of a session, a fold of its events, so that a resumed session knows it too:

1. Once any of them has read text of a stranger (a web page, a web search, an MCP server, the output of a command that
   reaches the network), `web_fetch` and network commands to a new host ask, even where a rule or the mode allows them. A host is
   new until it was reached, and never new when the person vouched for it.
2. A URL that seems to carry data (long coded text, or text of files that were read) to a host that the person did not vouch
   for asks at any time.

The person vouches for a host by naming it in a message, or by a rule `web_fetch(domain:HOST)`. Mode yolo asks nothing of this.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from ..protocol.events import Envelope, InboxMessage, MessageAdded, ToolFinished
from ..protocol.tool_info import SERVER_PREFIX, WEB_FETCH, WEB_SEARCH
from ..text.lazy_regex import pattern
from .rule import RuleInput
from .rules import Rules

KEPT = 1_000_000
"""Characters of what was read that URLs are compared with; the oldest are forgotten first."""
LONGEST_QUERY = 200
"""Characters of a query from which on it counts as carrying data."""
SHARED = 24
"""Characters in a row that a URL may share with a file before it counts as carrying text of it."""

HOST = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+"
URL = pattern(r"\b[a-z][a-z0-9+.-]*://[^\s'\"<>|;()`\\]+", re.I)
_AUTHORITY = pattern(r"[a-z][a-z0-9+.-]*://(?:[^/?#@\s]*@)?(\[[0-9a-f:.]+\]|[^/?#:\s]+)", re.I)
_NAMED = pattern(rf"\b{HOST}\b", re.I)
_TOP = pattern(r".*\.(?:com|org|net|edu|gov|io|dev|ai|app|eu|uk|de|fr|ch|nl|jp|info)", re.I)
_HERE = pattern(r"localhost|.*\.localhost|127\.[\d.]+|0\.0\.0\.0|\[?::1?\]?")
_BESIDE = pattern(r"\n\n(?:<stdin>|<file path=|<folder path=|\[I ran this command)")
_PUBLIC = pattern(r"\bhttps?://[^\s'\"<>|;()`\\?]+", re.I)
"""An address up to its query: those that stand in files are mostly known to the world."""
_QUOTED = pattern(r"(?:%[0-9A-Fa-f]{2})+")
_CODED = pattern(r"[A-Za-z0-9+]{32,}")
UNREAD = "a host that cannot be read from the command"


class TaintTracker:
    """See the module. `apply` takes each event of the session in order.

    `outbound(command)` tells what a shell command of the past talked to: (host, URL or "").
    """

    def __init__(self, outbound: Callable[[str], Sequence[tuple[str, str]]]) -> None:
        self._outbound = outbound
        self.source = ""
        """Where the first text of a stranger came from, "" while none was read."""
        self._reached: set[str] = set()
        self._vouched: set[str] = set()
        self._changed: set[str] = set()
        self._facts: dict[str, ToolFinished] = {}
        self._files = _RecentTexts()
        self._links = _RecentTexts()

    # ---- the fold ----------------------------------------------------------------------

    def apply(self, envelope: Envelope) -> None:
        """Take in what an event tells."""
        event = envelope.event
        if isinstance(event, InboxMessage) and event.source == "person":
            self._heard(event.text)
        elif isinstance(event, ToolFinished):
            self._ran(event)
        elif isinstance(event, MessageAdded):
            message = event.message
            if message.role == "user" and message.source == "person":
                self._heard(message.text)
            for result in message.results:
                self._read(self._facts.pop(result.call_id, None), result.text)

    def _heard(self, text: str) -> None:
        words = _BESIDE().split(text, maxsplit=1)[0]  # what is attached, others wrote
        self._links.add(words)
        self._vouched.update(host_of(url) for url in URL().findall(words))
        self._vouched.update(name.lower() for name in _NAMED().findall(words) if _TOP().fullmatch(name))

    def _ran(self, event: ToolFinished) -> None:
        facts = event.facts
        self._facts[event.call_id] = event
        self._changed.update(change.path for change in facts.files)
        self._reached.update(host_of(url) for url in facts.urls)
        self._links.add("\n".join((*facts.urls, *facts.found)))  # asked for again they tell nobody anything new
        hosts = [host for run in facts.commands for host, _ in self._outbound(run.command)]
        self._reached.update(host for host in hosts if host != UNREAD)
        if not self.source and event.status in ("ok", "error"):
            if facts.urls:
                self.source = host_of(facts.urls[0])
            elif facts.found or event.tool == WEB_SEARCH:
                self.source = "a web search"
            elif event.tool.startswith(SERVER_PREFIX):
                self.source = event.tool
            elif hosts:
                self.source = f"a command that talked to {hosts[0]}"

    def _read(self, ran: ToolFinished | None, text: str) -> None:
        """Keep what a tool gave: URLs that stand in text of others are links, what the session wrote itself is not."""
        facts = ran.facts if ran else None
        if facts is not None and (facts.urls or facts.found):
            self._links.add(text)
            return
        self._files.add(_PUBLIC().sub(" ", text) if "://" in text else text)
        if facts is not None and facts.read and self._changed.isdisjoint(facts.read):
            self._links.add(text)

    # ---- the question ------------------------------------------------------------------

    def approval_reason(self, call: RuleInput, arguments: object, rules: Rules) -> str:
        """Why a call that `rules` allow must be put to a person all the same, "" when it need not."""
        if rules.effective_mode == "yolo":
            return ""
        if call.effect == "net":
            urls = [text for text in _strings(arguments) if "://" in text]
            targets = [(host_of(url), url) for url in urls]
        else:
            targets = list(call.script.hosts) if call.script else []
        for host, url in targets:
            if _HERE().fullmatch(host) or self._is_user_named(host) or rules.names_host(host):
                continue
            allow = f"; naming {host} in a message or in a rule {WEB_FETCH}(domain:{host}) allows it"
            if why := self._carries(url):
                return f"this URL goes to {host}, which you did not name, and {why}{allow}"
            if self.source and host not in self._reached:
                known = "" if host == UNREAD else allow
                return f"text of strangers was read ({self.source}), and {host} is new: asked even where a rule allows it{known}"
        return ""

    def _is_user_named(self, host: str) -> bool:
        return any(host == name or host.endswith("." + name) for name in self._vouched)

    def _carries(self, url: str) -> str:
        """What data a URL seems to carry, in words, "" for none."""
        rest = url.partition("://")[2].partition("/")[2] or url.partition("?")[2]
        if not rest or url.partition("#")[0] in self._links:
            return ""
        if len(rest.partition("?")[2]) > LONGEST_QUERY:
            return "its query is long"
        words = _unquoted(rest)
        if any(_is_coded(run) for run in _CODED().findall(words)):
            return "it holds long coded text"
        return "it holds text of what was read here" if self._files.shares(words) else ""


class _RecentTexts:
    """The newest texts, each once, up to `KEPT` characters."""

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
        """Whether `SHARED` characters in a row stand in one of the texts: any such row holds one whole step of half of it."""
        step = SHARED // 2
        for start in range(0, len(words) - step + 1, step):
            if words[start : start + step] in self:
                near = range(max(0, start - step), min(start, len(words) - SHARED) + 1)
                if any(words[at : at + SHARED] in self for at in near):
                    return True
        return False


def _is_coded(run: str) -> bool:
    """Whether letters and digits in a row look like coded data; a digest in hex is none, up to 64 of them."""
    if re.fullmatch(r"[0-9a-fA-F]+", run):
        return len(run) > 64
    return all(re.search(kind, run) for kind in ("[a-z]", "[A-Z]", "[0-9]"))


def _unquoted(text: str) -> str:
    """The words of a part of a URL."""
    return _QUOTED().sub(
        lambda run: bytes.fromhex(run[0].replace("%", "")).decode("utf-8", "replace"), text.replace("+", " ")
    )


def host_of(url: str) -> str:
    """The host of a URL in lower case, "" where there is none."""
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
