"""Attaches the content of files that a prompt names with `@`."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from friday_cli.core.permissions.dangerous import is_secret
from friday_cli.core.permissions.rule import RuleInput
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.protocol.errors import ToolError, UsageError
from friday_cli.core.protocol.messages import Image
from friday_cli.core.protocol.tool_info import SERVER_PREFIX
from friday_cli.core.protocol.workspace import Workspace
from friday_cli.core.text.lazy_regex import pattern
from friday_cli.core.text.untrusted import neutralize_line, wrap_untrusted
from friday_cli.core.tool_catalog import READ_FILE

from .mentions import addressed, misspelt, task_of

if TYPE_CHECKING:
    from friday_cli.mcp.pool import ServerPool

MOST_CHARS = 100_000
ASKED_BY_PROMPT = "Do what this prompt of the MCP server says, as far as it helps the user:"
MOST_IMAGE_BYTES = 5_000_000
_NAMED = pattern(r"""(?<![\w@/.])@(?:"([^"\n]+)"|'([^'\n]+)'|([^\s"'`]+))""")
_IMAGES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}


async def attached(
    prompt: str,
    workspace: Workspace,
    *,
    rules: Rules,
    profiles: Collection[str] = (),
    servers: ServerPool | None = None,
) -> tuple[str, tuple[Image, ...], list[str]]:
    """The prompt followed by the text files that it names, its images, and remarks for the person. An `@name` that is
    no file of the workspace stays as it is. What a rule denies or asks about is not attached. `@SERVER:URI` names a resource of one of `servers`, and a prompt that begins with
    `/mcp__SERVER__PROMPT` one of theirs. At the start it names the profile if it is one of `profiles`; `@./NAME`
    always names the file."""
    texts: list[str] = []
    images: list[Image] = []
    remarks: list[str] = []
    rest = task_of(prompt) if addressed(prompt, profiles) else prompt
    meant = misspelt(prompt, profiles)
    if servers is not None and prompt.startswith(f"/{SERVER_PREFIX}"):
        command, *words = prompt[1:].split()
        reply = await servers.prompt(command, words)
        prompt = f"{prompt}\n\n{ASKED_BY_PROMPT}"
        texts.append(_from_server(command, reply.text))
        images += reply.images
    names = (next(filter(None, match.groups())) for match in _NAMED().finditer(rest)) if "@" in rest else ()
    for name in dict.fromkeys(names):
        try:
            server, _, uri = name.partition(":")
            if servers is not None and uri and servers.has(server):
                from friday_cli.mcp.tools import file_labels  # only loaded with servers

                _refuse_by_rule(rules, file_labels(uri, workspace))
                reply = await servers.read(server, uri)
                texts.append(
                    _from_server(f"{SERVER_PREFIX}{name}", wrap_untrusted(reply.text, source=f"MCP server {server}"))
                )
                images += reply.images
                continue
            found = await _find(name, workspace)
            if found is None:
                if meant and name.startswith(rest.split()[0][1:]):
                    remarks.append(f"@{name}: no profile and no file, so it is text. Did you mean @{meant}?")
                    meant = ""
                elif "/" in name or "." in name.strip("."):
                    remarks.append(f"@{name}: not attached: the workspace has no such file.")
                continue
            _refuse_by_rule(rules, workspace.labels(str(found)))
            part = await _read(found, workspace, rules)
        except (ToolError, UsageError) as error:
            remarks.append(f"@{name}: {error}")
            continue
        if isinstance(part, Image):
            images.append(part)
        else:
            texts.append(part)
    return "\n\n".join([prompt, *texts]), tuple(images), remarks


def _from_server(name: str, text: str) -> str:
    """Text of a server as an attachment, so that it is not taken for text of the person."""
    return f'<file path="{neutralize_line(name)}">\n{text[:MOST_CHARS]}\n</file>'


async def _find(name: str, workspace: Workspace) -> Path | None:
    """The named file, None if there is none. Punctuation after a name is not part of it."""
    for candidate in dict.fromkeys((name, name.rstrip(".,;:!?)]}"))):
        try:
            path = workspace.resolve(candidate)
        except ToolError:
            continue
        if await asyncio.to_thread(path.exists):
            return path
    return None


def _refuse_by_rule(rules: Rules, labels: Sequence[str]) -> None:
    """Raises ToolError for a file that a rule denies reading, or asks about: nobody is asked here."""
    found = rules.ruled(RuleInput(READ_FILE, "read", tuple(labels))) if labels else None
    if found is not None:
        raise ToolError(f"not attached: {found.reason}.")


async def _read(path: Path, workspace: Workspace, rules: Rules) -> str | Image:
    label = workspace.label(path)
    if is_secret(label):
        raise ToolError("it may hold secrets and was not attached.")
    if await asyncio.to_thread(path.is_dir):
        names = await asyncio.to_thread(lambda: sorted(p.name + ("/" if p.is_dir() else "") for p in path.iterdir()))
        labels = {name: workspace.label(path / name) for name in names}
        withheld = rules.withheld(RuleInput(READ_FILE, "read"), list(labels.values()))
        names = [name for name in names if labels[name] not in withheld]
        return f'<folder path="{label}">\n' + "\n".join(names[:500]) + "\n</folder>"
    kind = _IMAGES.get(path.suffix.lower())
    if kind:
        data = await workspace.read(path, limit=MOST_IMAGE_BYTES + 1)
        if len(data) > MOST_IMAGE_BYTES:
            raise ToolError(f"the image is larger than {MOST_IMAGE_BYTES // 1_000_000} MB.")
        return Image(kind, base64.b64encode(data).decode())
    data = await workspace.read(path, limit=MOST_CHARS * 4)
    if b"\0" in data[:8192]:
        raise ToolError("it is not a text file.")
    text = data.decode("utf-8-sig", "replace")
    cut = f"\n[... {label} continues; {READ_FILE} shows the rest]" if len(text) > MOST_CHARS else ""
    return f'<file path="{label}">\n{text[:MOST_CHARS]}{cut}\n</file>'
