"""Attaches the content of files that a prompt names with `@`."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

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
from friday_cli.system.named_files import why_left_out

from .mentions import addressed, misspelt, task_of

if TYPE_CHECKING:
    from friday_cli.extensions.commands import CustomCommand
    from friday_cli.mcp.connection import Reply
    from friday_cli.mcp.pool import ServerPool

MOST_CHARS = 100_000
ASKED_BY_PROMPT = "Do what this prompt of the MCP server says, as far as it helps the user:"
MOST_IMAGE_BYTES = 5_000_000
_NAMED = pattern(r"""(?<![\w@/.=&?#%+~-])@(?:"([^"\n]+)"|'([^'\n]+)'|([^\s"'`]+))""")
_QUOTED = pattern(r"^[ \t]*>[^\n]*|^[ \t]*(`{3,}|~{3,})[^\n]*$(?:.*?^[ \t]*\1[`~]*[ \t]*$|.*)", re.M | re.S)
"""Quoted lines and code blocks: text of others, most of the time."""
_IMAGES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}


MOST_REMARKS = 20
"""Names in a paste that are looked up to say that they attach nothing."""


class PromptText(msgspec.Struct, frozen=True):
    """A prompt and who wrote it. `text` is sent; `typed` is the part of it that the person typed, which alone names files,
    resources and prompts of MCP servers (None: all of it). `of_project` is the text of a project's command: it may name files of
    the folder that `why_left_out` lets in."""

    text: str
    typed: str | None = None
    of_project: str = ""


def prompt_of_command(custom: CustomCommand, rest: str, typed: str | None = None) -> PromptText:
    """The prompt of a custom command with `rest`, what was written after its name. `typed` is the part of the message that was not
    pasted (None: all)."""
    text = custom.prompt(rest)
    if custom.own:
        return PromptText(text, typed=typed)
    return PromptText(text, typed=rest if typed is None else typed, of_project=text)


async def attached(
    prompt: PromptText,
    workspace: Workspace,
    *,
    rules: Rules,
    profiles: Collection[str] = (),
    servers: ServerPool | None = None,
) -> tuple[str, tuple[Image, ...], list[str]]:
    """The prompt followed by the text files that it names, its images, and remarks for the person. An `@name` that is
    not a file of the workspace stays as it is, and so is one in a quoted line or a code block. What a rule denies or asks about is
    not attached. `@SERVER:URI` names a resource of one of `servers`, and a prompt that begins with `/mcp__SERVER__PROMPT` one of
    theirs. At the start it names the profile if it is one of `profiles`; `@./NAME` always names the file."""
    text, typed = prompt.text, prompt.text if prompt.typed is None else prompt.typed
    texts: list[str] = []
    images: list[Image] = []
    remarks: list[str] = []
    rest = task_of(typed) if addressed(typed, profiles) else typed
    meant = misspelt(typed, profiles)
    if servers is not None and typed.startswith(f"/{SERVER_PREFIX}"):
        command, *words = typed[1:].split()
        reply = await servers.prompt(command, words)
        text = f"{text}\n\n{ASKED_BY_PROMPT}"
        texts.append(_from_server(command, reply.text))
        images += reply.images
    by_person = dict.fromkeys(_names(rest))
    left_out: list[str] = []
    for name in dict.fromkeys((*by_person, *_names(prompt.of_project))):
        try:
            server, _, uri = name.partition(":")
            if name in by_person and servers is not None and uri and servers.has(server):
                resource = await _resource(servers, name, workspace, rules)
                texts.append(_from_server(f"{SERVER_PREFIX}{name}", resource.text))
                images += resource.images
                continue
            found = await _find(name, workspace)
            if found is None:
                if meant and name.startswith(rest.split()[0][1:]):
                    remarks.append(f"@{name} is neither a profile nor a file, so it stays text. Did you mean @{meant}?")
                    meant = ""
                elif "/" in name or "." in name.strip("."):
                    remarks.append(f"@{name}: not attached: the workspace has no such file.")
                continue
            if name not in by_person and (why := await asyncio.to_thread(why_left_out, found, workspace.root)):
                left_out.append(f"@{name} ({why})")
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
    remarks += await _pasted(prompt, by_person, workspace)
    if left_out:
        remarks.append(f"the command names files that were not attached: {', '.join(left_out)}.")
    return "\n\n".join([text, *texts]), tuple(images), remarks


async def _pasted(prompt: PromptText, typed: Collection[str], workspace: Workspace) -> list[str]:
    """What to tell about files that only a pasted part of a prompt names."""
    if prompt.typed is None or prompt.of_project:
        return []
    names = [name for name in dict.fromkeys(_names(prompt.text)) if name not in typed]
    found = [name for name in names[:MOST_REMARKS] if await _find(name, workspace) is not None]
    return [f"@{name}: not attached, because it was not typed. Type it to attach the file." for name in found]


def _names(text: str) -> list[str]:
    """What a text names with an @, outside of quotes and code blocks."""
    if "@" not in text:
        return []
    return [next(filter(None, match.groups())) for match in _NAMED().finditer(_QUOTED().sub("", text))]


async def _resource(servers: ServerPool, name: str, workspace: Workspace, rules: Rules) -> Reply:
    """The resource that `name` (SERVER:URI) stands for, with its text marked as that of others."""
    from friday_cli.mcp.tools import file_labels  # only loaded with servers

    server, _, uri = name.partition(":")
    _refuse_by_rule(rules, file_labels(uri, workspace))
    reply = await servers.read(server, uri)
    return msgspec.structs.replace(reply, text=wrap_untrusted(reply.text, source=f"MCP server {server}"))


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
        listed = [f"{one.name}/" if one.kind == "folder" else one.name for one in await workspace.entries(path)]
        labels = {name: workspace.label(path / name) for name in listed}
        withheld = rules.withheld(RuleInput(READ_FILE, "read"), list(labels.values()))
        names = [name for name in listed if labels[name] not in withheld]
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
