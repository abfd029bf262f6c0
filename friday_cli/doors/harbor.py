"""Friday as an agent of Harbor (Terminal-Bench): installed in the container of a task, it works there as `friday ask`."""

from __future__ import annotations

import json
import os
import shlex

from harbor.agents.capabilities import AgentCapabilities
from harbor.agents.installed.base import BaseInstalledAgent, CliFlag, with_prompt_template
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext

from friday_cli import __version__
from friday_cli.llm.models.presets import PRESETS

BIN = 'PATH="$HOME/.local/bin:$PATH"'
RESULTS = "0|1|4|5"
"""Exit codes of `friday ask` that are about the agent's work; others are about usage, the model, the service, or Friday itself."""


class Friday(BaseInstalledAgent):  # type: ignore[misc]
    """`harbor run --agent-import-path friday_cli.doors.harbor:Friday`. Its options are flags of `friday ask`; give it the limit of the
    task as `timeout`, so that it hands over what it has before Harbor stops it."""

    capabilities = AgentCapabilities(atif=True, resume=True, reasoning_effort=True)
    CLI_FLAGS = [  # noqa: RUF012 - Harbor's form
        CliFlag("timeout", "--timeout", "int"),
        CliFlag("max_cost", "--max-cost"),
        CliFlag("max_turns", "--max-turns", "int"),
        CliFlag("reasoning_effort", "--effort"),
        CliFlag("profile", "--profile"),
    ]

    @staticmethod
    def name() -> str:
        return "friday"

    def get_version_command(self) -> str:
        return f"{BIN} friday --version"

    def parse_version(self, stdout: str) -> str:
        return stdout.strip().removeprefix("friday ")

    async def install(self, environment: BaseEnvironment) -> None:
        await self.ensure_system_dependencies(environment, ("curl", "git"))
        package = shlex.quote(f"friday-cli=={self._version or __version__}")
        uv = "command -v uv >/dev/null || curl -LsSf https://astral.sh/uv/install.sh | sh"
        await self.exec_as_agent(
            environment, f"{BIN}; {uv}; uv tool install --python 3.12 {package} && friday --version"
        )

    @with_prompt_template  # type: ignore[untyped-decorator]
    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        """Work on the task. Raises what Harbor makes of a failure that is not the agent's."""
        logs = shlex.quote(str(self.environment_logs_dir))
        flags = f"{'--continue ' if self._resume else ''}{self.build_cli_flags()}"
        if self.model_name:
            flags += f" --model {shlex.quote(self.model_name)}"
        ask = f"friday ask --yolo --output-format json {flags} -- {shlex.quote(instruction)}"
        ended = f"case $code in {RESULTS}) ;; *) cat {logs}/friday.txt >&2; exit $code;; esac"
        last = f"""$(sed -n 's/.*"session_id": "\\([^"]*\\)".*/\\1/p' {logs}/friday.json | head -n 1)"""
        try:
            await self.exec_as_agent(
                environment,
                f"{BIN}; mkdir -p {logs}; {ask} > {logs}/friday.json 2> {logs}/friday.txt && code=0 || code=$?; {ended}",
                env=self._keys(),
            )
        finally:
            export = f'friday sessions export "{last}" -f atif -o {logs}/trajectory.json'
            await environment.exec(command=f"{BIN}; {export} || true")

    def _keys(self) -> dict[str, str]:
        """The keys and the address of the model's service, as this process has them."""
        preset = PRESETS.get((self.model_name or "").partition("/")[0])
        names = (*preset.keys, preset.base_env) if preset is not None else ()
        return {name: os.environ[name] for name in names if name in os.environ}

    def populate_context_post_run(self, context: AgentContext) -> None:
        """Read what it used."""
        try:
            document = json.loads((self.logs_dir / "friday.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return
        used = document["usage"]
        read = sum(used[name] for name in ("input_tokens", "cache_read_tokens", "cache_write_tokens"))
        context.n_input_tokens, context.n_output_tokens = read, used["output_tokens"]
        context.n_cache_tokens = used["cache_read_tokens"]
        context.cost_usd = document["cost_usd"]
        context.metadata = {"session": document["session_id"], "status": document["status"]}
