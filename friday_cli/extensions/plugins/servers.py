"""The MCP servers of a plugin: `mcp.json` as Agent Plugins 1.0.0 defines it, or that of a plugin for Claude Code."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from friday_cli.core.protocol.errors import FileError
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.mcp.entry import ServerEntry
from friday_cli.mcp.names import MAX_SERVER, server_name
from friday_cli.mcp.parse import TABLE, EntrySource, check, resolve
from friday_cli.system.paths import data_dir, text_of

from .plugin import SCHEMAS, VERSION, Plugin, load_json

_SCHEMA = f"{SCHEMAS}{VERSION}/mcp.schema.json"
_VARIABLE = re.compile(r"\$\{(?:CLAUDE_)?(PLUGIN_ROOT|PLUGIN_DATA)\}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
RESERVED = ("PLUGIN_ROOT", "PLUGIN_DATA")


class _Stdio(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="stdio"):
    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = "./"


class _Http(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="streamable-http"):
    url: str
    headers: dict[str, str] = {}


class _Sse(_Http, tag="sse"):
    pass


def data_folder(plugin: Plugin, env: Mapping[str, str]) -> Path:
    """The folder that the servers of a plugin can write, kept when the plugin changes. A project's plugin has one for each project."""
    if plugin.origin == "user":
        return data_dir(env) / "plugins" / plugin.name
    import hashlib

    place = hashlib.sha256(text_of(plugin.root).encode()).hexdigest()[:16]
    return data_dir(env) / "plugins" / f"{plugin.name}--{place}"


def servers(plugin: Plugin, env: Mapping[str, str]) -> tuple[list[ServerEntry], list[str]]:
    """The servers of a plugin, and one line for each that cannot be used. Their names begin with `plugin_` and its name, so none has
    the name of another server."""
    found: list[ServerEntry] = []
    problems: list[str] = []
    try:
        listed = _listed(plugin)
    except FileError as error:
        return [], [str(error)]
    places = {"PLUGIN_ROOT": text_of(plugin.root.resolve()), "PLUGIN_DATA": text_of(data_folder(plugin, env).resolve())}
    for name, data in listed:
        full = _server_name(f"plugin_{plugin.name}_{name}")
        try:
            entry = (_portable if plugin.portable else _claude)(plugin, full, data, places, env)
            if any(other.name == full for other in found):
                raise ValueError(f"another server already has the name {full}.")
        except (ValueError, msgspec.ValidationError) as error:
            problems.append(f"the server {sanitize_line(name, 60)} is not used: {sanitize_line(str(error), 200)}")
        except FileError as error:
            problems.append(f"the server {sanitize_line(name, 60)} is not used: {error.problem}")
        else:
            found.append(entry)
    return found, problems


def _server_name(written: str) -> str:
    """The name of a server; one that is cut ends with a hash, so that two servers of a plugin with a long name differ."""
    if len(written) <= MAX_SERVER:
        return server_name(written)
    import hashlib

    return f"{server_name(written[: MAX_SERVER - 9])}_{hashlib.sha256(written.encode()).hexdigest()[:8]}"


def _listed(plugin: Plugin) -> Iterator[tuple[str, Any]]:
    """The entries as they are written. Raises FileError if the whole file cannot be used."""
    if plugin.inline_servers:
        return iter(plugin.inline_servers.items())
    if not plugin.servers:
        return iter(())
    document, path = load_json(plugin.files, plugin.servers), text_of(plugin.root / plugin.servers)
    if plugin.portable:
        if document.get("$schema") != _SCHEMA:
            raise FileError(path, f"must be {_SCHEMA}; none of its servers is used.", field="$schema")
        if more := document.keys() - {"$schema", TABLE}:
            raise FileError(path, "unknown field; none of its servers is used.", field=sanitize_line(min(more), 60))
    table = document.get(TABLE, None if plugin.portable else document)
    if not isinstance(table, dict):
        raise FileError(path, "expected an object of servers by name; none of its servers is used.", field=TABLE)
    return iter(table.items())


def _portable(
    plugin: Plugin, name: str, data: object, places: Mapping[str, str], env: Mapping[str, str]
) -> ServerEntry:
    """A server of Agent Plugins. Only `${PLUGIN_ROOT}` and `${PLUGIN_DATA}` are replaced, and only where the specification says.
    Raises ValueError."""
    found: _Stdio | _Http | _Sse = msgspec.convert(data, _Stdio | _Http | _Sse)
    file = text_of(plugin.root / plugin.servers)
    if isinstance(found, _Sse):
        raise ValueError("the transport sse is not supported.")
    if isinstance(found, _Http):
        _check_address(found)
        return ServerEntry(
            name,
            "http",
            url=found.url,
            headers=found.headers,
            network=plugin.origin == "project",
            origin="plugin",
            file=file,
        )
    if any(key in RESERVED for key in found.env):
        raise ValueError("env must not set PLUGIN_ROOT or PLUGIN_DATA.")

    def filled(text: str) -> str:
        return re.sub(r"\$\{(PLUGIN_ROOT|PLUGIN_DATA)\}", lambda match: places[match[1]], text)

    return ServerEntry(
        name,
        "stdio",
        command=_program(found.command, plugin, places),
        args=tuple(map(filled, found.args)),
        env={**{key: filled(value) for key, value in found.env.items()}, **places},
        cwd=_folder(found.cwd, plugin, places, filled(found.cwd)),
        sandbox=plugin.origin == "project",
        network=plugin.origin == "project",
        origin="plugin",
        file=file,
    )


def _program(command: str, plugin: Plugin, places: Mapping[str, str]) -> str:
    """The program: a bare name, or a file of the plugin that the person has seen. Raises ValueError."""
    if command.startswith("./"):
        path = os.path.realpath(os.path.join(places["PLUGIN_ROOT"], command))
        if not path.startswith(places["PLUGIN_ROOT"] + "/"):
            raise ValueError("command is outside the plugin.")
        if path.removeprefix(places["PLUGIN_ROOT"] + "/") not in plugin.files.files:
            raise ValueError("command is not a file of the plugin.")
        return path
    if not command or re.search(r"[\s/\\\0]", command):
        raise ValueError("command must be one name, or a path that begins with ./")
    return command


def _folder(written: str, plugin: Plugin, places: Mapping[str, str], filled: str) -> str:
    """The working folder: of the servers' data, or one with files of the plugin. Raises ValueError."""
    data = written == "${PLUGIN_DATA}" or written.startswith("${PLUGIN_DATA}/")
    if not data and not written.startswith("./") and not re.fullmatch(r"\$\{PLUGIN_ROOT\}(/.*)?", written):
        raise ValueError("cwd must begin with ./, ${PLUGIN_ROOT} or ${PLUGIN_DATA}.")
    top = places["PLUGIN_DATA" if data else "PLUGIN_ROOT"]
    path = os.path.realpath(os.path.join(top, filled))
    if path != top and not path.startswith(top + "/"):
        raise ValueError("cwd is outside the plugin.")
    below = path[len(top) + 1 :]
    if below and not data and not any(name.startswith(f"{below}/") for name in plugin.files.files):
        raise ValueError("cwd is not a folder of the plugin.")
    return path


def _check_address(found: _Http) -> None:
    """Raises ValueError for an address or a header that the specification does not allow."""
    parts = urlsplit(found.url)
    host = parts.hostname or ""
    if (
        parts.scheme not in ("http", "https")
        or not host
        or "@" in parts.netloc
        or "#" in found.url
        or re.search(r"\s", found.url)
    ):
        raise ValueError("url must be an http or https address without user and fragment.")
    if parts.scheme == "http" and host != "localhost" and not _is_loopback(host):
        raise ValueError("url must begin with https:// for another machine.")
    if len({key.lower() for key in found.headers}) < len(found.headers):
        raise ValueError("headers has the same name twice.")
    for key, value in found.headers.items():
        if not _HEADER.fullmatch(key) or re.search(r"[\r\n\0]", value):
            raise ValueError(f"{key!r} is not a valid header.")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _claude(plugin: Plugin, name: str, data: object, places: Mapping[str, str], env: Mapping[str, str]) -> ServerEntry:
    """A server of a plugin for Claude Code. Raises FileError."""
    file = text_of(plugin.root / (plugin.servers or ".claude-plugin/plugin.json"))

    def filled(value: Any) -> Any:
        if isinstance(value, str):
            return _VARIABLE.sub(lambda match: places[match[1]], value)
        if isinstance(value, list):
            return [filled(one) for one in value]
        return {key: filled(one) for key, one in value.items()} if isinstance(value, dict) else value

    written, _ = check(file, name, filled(data))
    confined = plugin.origin == "project"
    entry = resolve(name, written, EntrySource(file, "plugin", places["PLUGIN_ROOT"], confined=confined), env)
    named = {f"CLAUDE_{key}": value for key, value in places.items()}
    cwd = entry.cwd or places["PLUGIN_ROOT"]
    more = {"env": {**entry.env, **places, **named}, "cwd": cwd} if entry.transport == "stdio" else {}
    return msgspec.structs.replace(entry, readonly=False, **more)
