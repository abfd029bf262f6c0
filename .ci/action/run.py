"""The step of the action: checks who started the run, then replaces itself with `friday ask --ci`.

Inputs come as environment variables, never as text of a shell. They are removed from the environment of Friday, which gets
the key of the service only. Needs nothing but Python's standard library.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any, NoReturn

WRITERS = ("admin", "maintain", "write")
"""Permissions of people who may change the repository anyway."""
UNATTENDED = ("schedule",)
"""Events that nobody but the repository itself starts."""


def main(environ: Mapping[str, str]) -> None:
    given = {name.removeprefix("INPUT_"): value for name, value in environ.items() if name.startswith("INPUT_")}
    rest = {name: value for name, value in environ.items() if not name.startswith("INPUT_") and name not in _WITHHELD}
    event = _event(environ)
    if environ.get("GITHUB_EVENT_NAME") not in UNATTENDED:
        _check_person(environ, given.get("GITHUB_TOKEN", ""))
    name = given.get("API_KEY_NAME") or "ANTHROPIC_API_KEY"
    if not re.fullmatch(r"[A-Z][A-Z0-9_]*_KEY", name):
        _stop(f"api-key-name: {name!r} is not the name of a key, such as ANTHROPIC_API_KEY.")
    program = shutil.which("friday", path=environ.get("PATH"))
    if program is None:
        _stop("friday is not installed.")
    _redirect_input(given.get("PROMPT_FILE") or os.devnull)
    os.execve(program, _arguments(given, event), {**rest, name: given.get("API_KEY", "")})


_WITHHELD = frozenset(
    ("GITHUB_TOKEN", "GH_TOKEN", "ACTIONS_RUNTIME_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "ACTIONS_CACHE_URL")
)
"""Tokens of the job that Friday does not need."""


def _arguments(given: Mapping[str, str], event: Mapping[str, Any]) -> list[str]:
    """The words of the command. Values are joined with `=`, so that none of them is read as an option."""
    prompt = given.get("PROMPT", "").strip()
    if not prompt and not given.get("PROMPT_FILE"):
        _stop("Set prompt or prompt-file.")
    words = ["friday", "ask", "--ci", f"--max-cost={given.get('MAX_COST', '')}"]
    ref = given.get("TRUST_REF") or event.get("pull_request", {}).get("base", {}).get("sha") or ""
    if ref:
        words.append(f"--trust-ref={ref}")
    elif event.get("pull_request") or "pull_request" in event.get("issue", {}):
        _stop("Set trust-ref: this event is about a pull request, and does not say what its base is.")
    options = (
        ("MODEL", "model"), ("PROFILE", "profile"), ("MAX_TURNS", "max-turns"), ("SCHEMA", "json-schema"), ("SARIF", "output"),
    )  # fmt: skip
    words += [f"--{option}={given[name]}" for name, option in options if given.get(name)]
    if given.get("SARIF"):
        words.append("--output-format=sarif")
    for name, option in (("ALLOW", "allow"), ("DENY", "deny")):
        words += [f"--{option}={rule.strip()}" for rule in given.get(name, "").splitlines() if rule.strip()]
    return [*words, "--", prompt or "Do the task in the text below."]


def _redirect_input(path: str) -> None:
    """Text of a file is piped in: only in the prompt itself does `@path` attach a file. A link of a checkout could lead to the
    environment of this process."""
    full = os.path.abspath(path)
    if full.startswith(os.path.join(os.getcwd(), "")) and os.path.realpath(path) != full:
        _stop(f"prompt-file: {path} leads through a link to another file.")
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError as error:
        _stop(f"prompt-file: {path} cannot be read: {error.strerror}.")
    os.dup2(file, 0)


def _event(environ: Mapping[str, str]) -> dict[str, Any]:
    """The payload of the event that started the run, {} without one."""
    path = environ.get("GITHUB_EVENT_PATH")
    if not path:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError) as error:
        _stop(f"GITHUB_EVENT_PATH: {path} cannot be read: {error}.")
    return found if isinstance(found, dict) else {}


def _check_person(environ: Mapping[str, str], token: str) -> None:
    """Stop unless the person who started the run may write to the repository. Names are never judged by how they end: anybody
    can register an app whose name ends with `[bot]`."""
    repository, person = (
        environ.get("GITHUB_REPOSITORY", ""),
        environ.get("GITHUB_TRIGGERING_ACTOR") or environ.get("GITHUB_ACTOR", ""),
    )
    url = f"{environ.get('GITHUB_API_URL', 'https://api.github.com')}/repos/{repository}/collaborators/{urllib.parse.quote(person, safe='')}/permission"
    request = urllib.request.Request(
        url, headers={"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            permission = json.load(answer).get("permission")
    except (OSError, ValueError, AttributeError) as error:
        _stop(f"GitHub does not say whether {person} may write to {repository}: {error}.")
    if permission not in WRITERS:
        _stop(f"{person} may not write to {repository}, so Friday does not run for this event.")


def _stop(text: str) -> NoReturn:
    plain = "".join(char if char.isprintable() else " " for char in text)
    print("::error title=Friday::" + plain.replace("%", "%25"), flush=True)
    sys.exit(2)


if __name__ == "__main__":
    main(os.environ)
