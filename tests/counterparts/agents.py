"""The five programs that Friday knows as external agents, each through `friday ask --profile NAME` over a loopback model: what is counted,
seen and asked, what it costs, and what is left of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.counterparts.agents_model import INPUT, OUTPUT, agents_model

PACKAGES = (
    "@agentclientprotocol/claude-agent-acp",
    "@agentclientprotocol/codex-acp",
    "@google/gemini-cli",
    "opencode-ai",
    "@qwen-code/qwen-code",
)
ROOT = Path(__file__).parents[2]
NAMES = ("claude-code", "codex", "gemini", "opencode", "qwen-code")
MODEL = {"codex": "model: test-model\n"}
"""For a model that it knows, Codex offers one tool that runs JavaScript."""
KEY = "sk-test-0123456789abcdef"


def main(only: str = "") -> int:
    """Try each; returns the exit code."""
    failed = 0
    for name in NAMES:
        if only in name:
            failed |= _tried(name)
    return failed


def _tried(name: str) -> int:
    code = 0
    with TemporaryDirectory() as folder:
        for what, argv, check in (
            ("works and is counted", ["--mode", "auto"], _worked),
            ("asks before it acts", ["--mode", "ask"], _asked),
            ("is refused at its limit", ["--mode", "auto", "--max-turns", "1"], _limited),
        ):
            home = Path(folder) / what.replace(" ", "-")
            problems = _run(name, home, argv, check)
            code |= bool(problems)
            print(f"  {name} {what}: {'; '.join(problems) or 'yes'}", flush=True)
    return code


def world(name: str, home: Path, url: str, front: str = "") -> tuple[Path, dict[str, str]]:
    """A project, and the environment of a home whose services are at `url` and whose profile of the program has `front` too. The person's own
    folder is in it as well: no program finds settings or a login of this machine."""
    project, person = home / "project", home / "person"
    project.mkdir(parents=True)
    person.mkdir()
    (project / "a.txt").write_text("one\n")
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@t"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], cwd=project, check=True)
    settings = f'[providers.anthropic]\nbase_url = "{url}"\n[providers.openai]\nbase_url = "{url}/v1"\n'
    settings += f'[providers.gemini]\nbase_url = "{url}/v1beta/openai"\n'
    (home / "config.toml").write_text(settings)
    (home / "profiles").mkdir()
    page = f"---\nname: {name}\ndescription: x\nexternal: {name}\n{front}---\nDo it.\n"
    (home / "profiles" / f"{name}.md").write_text(page)
    env = {**os.environ, "FRIDAY_HOME": str(home), "HOME": str(person), "PYTHONPATH": str(ROOT)}
    return project, env | dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"), KEY)


def asking(name: str, *argv: str) -> list[str]:
    """The command that asks the program."""
    return [sys.executable, "-m", "friday_cli", "ask", "--profile", name, "-f", "json", *argv]


def _run(name: str, home: Path, argv: list[str], check: Any) -> list[str]:
    with agents_model("printf 'made\\n' > made.txt") as model:
        project, env = world(name, home, model.url, MODEL.get(name, ""))
        command = asking(name, "--timeout", "150", *argv)
        begun = time.monotonic()
        ran = subprocess.run(
            [*command, "Write written.txt, and run the command."], cwd=project, env=env, capture_output=True, text=True, check=False
        )  # fmt: skip
        took = time.monotonic() - begun
        before = model.work + model.others
        time.sleep(2)
        left = processes(str(home))
        problems = [f"left running: {left}"] if left else []
        problems += [f"{model.work + model.others - before} requests after its end"] * (
            model.work + model.others > before
        )
        problems += ["its own key reached the service"] * bool(model.keys - {KEY})
        try:
            document = json.loads(ran.stdout)
        except ValueError:
            return [*problems, f"no answer: {ran.stderr[-400:]}"]
        found = subprocess.run(
            [sys.executable, "-m", "friday_cli", "sessions", "show", ":a.1", "--json"], cwd=project, env=env,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        agent = next(one for one in json.loads(found.stdout)["agents"] if one["path"] == "a.1")
        print(
            f"    {took:.1f} s, {model.work} + {model.others} requests, {agent['turns']} turns, {agent['error'] or agent['result']!r}"
        )
        for line in ("files", "reported", "confirmed", "unreported", "refused", "unknown", "warnings"):
            print(f"      {line}: {agent['receipt'].get(line)}")
        return problems + check(agent, model, document)


def _counted(agent: dict[str, Any], model: Any) -> list[str]:
    usage, requests = agent["usage"], model.work + model.others
    said = usage["input"] + usage["cache_read"] + usage["output"]
    return [] if said == requests * (INPUT + OUTPUT) else [f"counted {said} tokens of {requests} requests"]


def _worked(agent: dict[str, Any], model: Any, document: dict[str, Any]) -> list[str]:
    names = {row["path"] for row in agent["receipt"].get("files", ())}
    problems = _counted(agent, model)
    problems += [f"ended {agent['status']} ({agent['stop_reason']}): {agent['error']}"] * (
        agent["status"] != "completed"
    )
    return problems + [f"{name} was not seen" for name in ("made.txt",) if name not in names]


def _asked(agent: dict[str, Any], model: Any, document: dict[str, Any]) -> list[str]:
    names = [row["path"] for row in agent["receipt"].get("files", ())]
    return _counted(agent, model) + ([f"changed {', '.join(names)} without asking"] if names else [])


def _limited(agent: dict[str, Any], model: Any, document: dict[str, Any]) -> list[str]:
    problems = [] if model.work <= 2 else [f"{model.work} requests at a limit of 1 turn"]
    return problems + [f"ended as {agent['stop_reason']}"] * (agent["stop_reason"] != "iterations")


def processes(text: str) -> list[str]:
    """The command lines of processes that name a folder, or work in it."""
    found = []
    for pid in (name for name in os.listdir("/proc") if name.isdigit()):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            inside = os.readlink(f"/proc/{pid}/cwd").startswith(text) or text in line
        except OSError:
            continue
        if inside and int(pid) != os.getpid():
            found.append(line[:100])
    return found


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:2]))
