"""A scripted agent that speaks the Agent Client Protocol on standard input and output, as Claude Code's or Codex's adapters do.

`python -m tests.servers.acp_agent SCRIPT` plays a JSON file: `{"prompts": [[STEP, ...], ...]}` with the steps of each prompt, and
what else it says of itself. What the client sends is appended to the file in `record`. Standard library only: it runs in a sandbox.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any


class Agent:
    """Plays one script. `steps` of a prompt are objects with one key each, which names a method of this class."""

    def __init__(self, script: dict[str, Any]) -> None:
        self.script = script
        self.session = script.get("session", "s-1")
        self.number = self.prompt = 0
        self.cancelled = False
        self.waiting: list[dict[str, Any]] = []

    # ---- messages ----------------------------------------------------------------

    def write(self, message: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    def read(self) -> dict[str, Any] | None:
        if self.waiting:
            return self.waiting.pop(0)
        line = sys.stdin.readline()
        if not line:
            return None
        message: dict[str, Any] = json.loads(line)
        if record := self.script.get("record"):
            with open(record, "a", encoding="utf-8") as file:
                file.write(line)
        return message

    def answer_to(self, number: int) -> dict[str, Any]:
        """The answer to a request of ours; what else comes meanwhile waits."""
        later = []
        while (message := self.read()) is not None:
            if message.get("id") == number and "method" not in message:
                self.waiting = later + self.waiting
                return message
            later.append(message)
            self.note(message)
        raise SystemExit(0)

    def note(self, message: dict[str, Any]) -> None:
        if message.get("method") == "session/cancel":
            self.cancelled = True

    def update(self, what: str, **fields: Any) -> None:
        session = fields.pop("in_session", self.session)
        self.write(
            {"method": "session/update", "params": {"sessionId": session, "update": {"sessionUpdate": what, **fields}}}
        )

    def serve(self) -> None:
        while (message := self.read()) is not None:
            method = str(message.get("method"))
            self.note(message)
            if "id" not in message or "method" not in message:
                continue
            if method in self.script.get("errors", {}):
                self.write({"id": message["id"], "error": self.script["errors"][method]})
                continue
            if method in self.script.get("silent", ()):
                continue
            answer = getattr(self, "on_" + method.replace("/", "_"), None)
            if answer is None:
                self.write({"id": message["id"], "error": {"code": -32601, "message": method}})
                continue
            result = answer(message.get("params") or {})
            if result is not None:
                self.write({"id": message["id"], "result": result})
                if self.script.get("twice"):
                    self.write({"id": message["id"], "result": {"stopReason": "refusal"}})

    # ---- requests of the client ---------------------------------------------------

    def on_initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        features = {"loadSession": False, "sessionCapabilities": {}, **self.script.get("features", {})}
        about = {"name": "scripted", "version": "1.2.3"}
        return {"protocolVersion": 1, "agentCapabilities": features, "agentInfo": about, **self.script.get("about", {})}

    def on_session_new(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"sessionId": self.session, **self.script.get("new", {})}

    def on_session_resume(self, params: dict[str, Any]) -> dict[str, Any]:
        self.session = params["sessionId"]
        return {}

    def on_session_set_mode(self, params: dict[str, Any]) -> dict[str, Any]:
        return {}

    def on_session_set_config_option(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"configOptions": []}

    def on_session_prompt(self, params: dict[str, Any]) -> dict[str, Any] | None:
        prompts = self.script["prompts"]
        steps = prompts[min(self.prompt, len(prompts) - 1)]
        self.prompt += 1
        self.cancelled = False
        answer: dict[str, Any] = {"stopReason": "end_turn"}
        for step in steps:
            ((name, value),) = step.items()
            done = getattr(self, "do_" + name)(value)
            if isinstance(done, dict):
                answer = done
        if self.cancelled:
            answer = {**answer, "stopReason": "cancelled"}
        return None if answer.get("never") else answer

    # ---- steps -------------------------------------------------------------------

    def do_say(self, text: str) -> None:
        self.update("agent_message_chunk", content={"type": "text", "text": text})

    def do_think(self, text: str) -> None:
        self.update("agent_thought_chunk", content={"type": "text", "text": text})

    def do_raw(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def do_update(self, fields: dict[str, Any]) -> None:
        self.update(**fields)

    def do_write(self, files: dict[str, str]) -> None:
        """Write files without a word."""
        for name, text in files.items():
            try:
                Path(name).write_text(text, encoding="utf-8")
            except OSError as error:
                self.do_say(f"[{name}: {error.strerror}]")

    def do_edit(self, files: dict[str, str]) -> None:
        """Write files, and report each as a call."""
        for name, text in files.items():
            self.call(f"Edit {name}", "edit", content=[{"type": "diff", "path": name, "newText": text}])
            self.do_write({name: text})

    def do_claim_edit(self, name: str) -> None:
        """Report a change that is not made."""
        self.call(f"Edit {name}", "edit", content=[{"type": "diff", "path": name, "newText": "x"}])

    def do_run(self, command: str) -> None:
        """Run a command in a shell, and report it."""
        ran = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
        text = (ran.stdout + ran.stderr)[-2000:]
        content = [{"type": "content", "content": {"type": "text", "text": text}}]
        self.call(command, "execute", rawInput={"command": command}, content=content, ok=ran.returncode == 0)

    def do_run_quietly(self, command: str) -> None:
        """Run a command and report nothing."""
        subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False)

    def do_claim_run(self, command: str) -> None:
        """Report a command that does not run."""
        self.call(command, "execute", rawInput={"command": command})

    def do_start(self, command: str) -> None:
        """Start a command that goes on in a session of its own."""
        subprocess.Popen(["/bin/sh", "-c", command], start_new_session=True)

    def call(self, title: str, kind: str, *, ok: bool = True, **fields: Any) -> None:
        self.number += 1
        ident = f"c{self.number}"
        self.update("tool_call", toolCallId=ident, title=title, kind=kind, status="in_progress", **fields)
        self.update("tool_call_update", toolCallId=ident, status="completed" if ok else "failed")

    def do_ask(self, asked: dict[str, Any]) -> None:
        """Ask for a permission; `then` are the steps after a yes, `else` those after a no."""
        self.number += 1
        call = {"toolCallId": f"q{self.number}", "title": asked.get("title", ""), **asked["call"]}
        options = asked.get("options") or [
            {"optionId": "always", "name": "Always", "kind": "allow_always"},
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]
        session = asked.get("session", self.session)
        number = 1000 + self.number
        params = {"sessionId": session, "toolCall": call, "options": options}
        self.write({"id": number, "method": "session/request_permission", "params": params})
        if asked.get("die"):
            os._exit(3)
        answer = self.answer_to(number)
        outcome = answer.get("result", {}).get("outcome", {})
        self.do_say(f"[{outcome.get('optionId') or outcome.get('outcome') or answer['error']['message']}]")
        for step in asked.get("then" if outcome.get("optionId") == "yes" else "else", ()):
            ((name, value),) = step.items()
            getattr(self, "do_" + name)(value)

    def do_request(self, given: dict[str, Any]) -> None:
        """Another request to the client; the error's code is said."""
        self.number += 1
        self.write({"id": 1000 + self.number, **given})
        answer = self.answer_to(1000 + self.number)
        self.do_say(f"[{answer.get('error', {}).get('code', 'ok')}]")

    def do_model(self, body: dict[str, Any]) -> None:
        """Send a request to the model, as the environment says where."""
        base, token = os.environ.get("ANTHROPIC_BASE_URL", ""), os.environ.get("ANTHROPIC_API_KEY", "")
        headers = {"x-api-key": token, "content-type": "application/json", "anthropic-version": "2023-06-01"}
        data = json.dumps({"model": "claude-sonnet-4-5", "max_tokens": 1000, "messages": [], **body}).encode()
        request = urllib.request.Request(f"{base}/v1/messages", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as found:
                found.read()
                self.do_say(f"[{found.status}]")
        except urllib.error.HTTPError as error:
            self.do_say(f"[{error.code} {error.read(300).decode()}]")
        except OSError as error:
            self.do_say(f"[{error}]")

    def do_models(self, bodies: list[dict[str, Any]]) -> None:
        """Send requests to the model at the same time, as a program with sub-agents of its own does."""
        threads = [threading.Thread(target=self.do_model, args=(body,)) for body in bodies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def do_connect(self, port: int) -> None:
        """Try to reach a service of this machine."""
        try:
            socket.create_connection(("127.0.0.1", port), timeout=10).close()
            self.do_say("[reached]")
        except OSError:
            self.do_say("[no]")

    def do_environ(self, names: list[str]) -> None:
        self.do_say(json.dumps({name: os.environ.get(name) for name in names}))

    def do_flood(self, megabytes: int) -> None:
        for _ in range(megabytes):
            sys.stdout.write("x" * 1_048_575 + "\n")
        sys.stdout.flush()

    def do_sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def do_until_steered(self, how: dict[str, Any]) -> None:
        """Wait for a message, say it, and answer as `how` says."""
        while (message := self.read()) is not None:
            self.note(message)
            if message.get("method") == "_session/steering":
                self.write({"id": message["id"], **how})
                if how.get("result", {}).get("outcome") == "injected":
                    self.do_say("[" + message["params"]["prompt"][0]["text"] + "]")
                return

    def do_until_file(self, name: str) -> None:
        while not os.path.exists(name):
            time.sleep(0.02)

    def do_until_cancelled(self, _: Any) -> None:
        while not self.cancelled and (message := self.read()) is not None:
            self.note(message)

    def do_hang(self, _: Any) -> None:
        """Read nothing any longer."""
        while True:
            time.sleep(60)

    def do_die(self, code: int) -> None:
        sys.stderr.write("a fault of its own\n")
        sys.stderr.flush()
        os._exit(code)

    def do_answer(self, answer: dict[str, Any]) -> dict[str, Any]:
        return answer


if __name__ == "__main__":
    Agent(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))).serve()
