"""What the user does to agents from the chat: answer, stop, write to, detach to the background, decide on a worktree."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

from friday_cli.core.protocol.errors import BudgetSpent, FridayError
from friday_cli.core.protocol.format import pluralize
from friday_cli.view import worktree_text

from .chat_screen import ChatScreen
from .chat_services import ChatServices
from .controller import proposed_tokens
from .widgets.chat_request import AgentAction

if TYPE_CHECKING:
    from friday_cli.core.permissions.approvals import ApprovalAnswer

SHOWN = 6
"""Changed files of a worktree that are named."""


class AgentActions:
    """The actions, each of which reports by a note how it ended. Call `begin` with one of them."""

    def __init__(self, services: ChatServices, chat: ChatScreen) -> None:
        self._services, self._controller, self._chat = services, services.controller, chat

    def begin(self, action: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        """Run an action without waiting for it."""

        async def run() -> None:
            try:
                await action(*arguments)
            except FridayError as error:
                self._services.say_note(str(error), "error")

        self._services.app.run_worker(run())

    async def carry_out(self, action: AgentAction, path: str) -> None:
        """What keys and clicks ask for. Raises FridayError."""
        match action:
            case "cancel" | "abort":
                await self.stop(path, action)
            case "write":
                await self.write(path)
            case "take_over":
                await self.take_over(path)
            case "background":
                await self.background(path)
            case "copy_result":
                await self.copy_result(path)
            case "decide_worktree":
                await self.decide_worktree(path)

    async def answer(self, ask_id: str, answer: ApprovalAnswer | str) -> None:
        """Answer a question or a permission request."""
        from friday_cli.session.commands import AnswerQuestion

        if not await self._controller.require_session().do(AnswerQuestion(ask_id, answer)):
            self._services.say_note(
                "That question is no longer open: it was answered elsewhere, or withdrawn.", "warning"
            )

    async def stop(self, path: str, level: Literal["cancel", "abort"]) -> None:
        """Stop an agent with its sub-agents; asks for a second press when there are sub-agents at work."""
        controller = self._controller
        below = sum(agent.path.startswith(path + ".") for agent in controller.state.working)
        if below and not self._services.presses.again(f"{level} {path}"):
            key = "x" if level == "cancel" else "X"
            text = f"{pluralize(below, 'agent')} below {path} would end too. Press {key} again to {level} all of them."
            return self._services.say_note(text, "warning")
        if path == "a":
            controller.compaction.cancel()
        from friday_cli.session.commands import Stop

        count = await controller.require_session().do(Stop(path, level))
        self._services.say_note(f"{pluralize(count, 'agent')} ended." if count else f"{path} has already ended.")

    async def background_newest(self) -> None:
        """Let the newest sub-agent that its parent waits for continue in the background."""
        working = self._controller.state.working
        waited = [agent.path for agent in working if agent.path != "a" and not agent.background]
        if waited:
            await self.background(waited[-1])
        else:
            self._services.say_note("The main agent is not waiting for a sub-agent.")

    async def write(self, path: str) -> None:
        """Address the prompt to an agent."""
        agent = self._controller.state.agents.get(path)
        self._chat.composer.aim(path if path != "a" else "", agent.profile if agent else "")

    async def take_over(self, path: str) -> None:
        """Work with a sub-agent in place of its parent."""
        from friday_cli.session.commands import TakeOver

        await self._controller.require_session().do(TakeOver(path))
        await self.write(path)
        self._services.say_note(f"You have taken over {path}. /handback [RESULT] returns it to its parent.")

    async def tell(self, path: str, text: str) -> None:
        """Send a message to a sub-agent. For one that has spent its tokens, the user is asked for more. Raises
        FridayError."""
        from friday_cli.session.commands import Tell

        try:
            await self._controller.require_session().do(Tell(path, text))
        except BudgetSpent as spent:
            from .widgets.number_dialog import NumberDialog

            title = f"{spent.message}\nHow many more tokens?"
            more = await self._services.app.push_screen_wait(NumberDialog(title, proposed_tokens(spent)))
            if more is None:
                self._chat.offer(text)
            else:
                await self._controller.require_session().do(Tell(path, text, more))

    async def copy_result(self, path: str) -> None:
        """Copy the result of an agent."""
        agent = self._controller.state.agents.get(path)
        result = (agent.earlier or agent.end) if agent else None
        if result and result.text:
            await self._services.copy_text(result.text)
        else:
            self._services.say_note(f"{path} has no result yet.")

    async def background(self, path: str) -> None:
        """Let a sub-agent continue in the background."""
        from friday_cli.session.commands import SendToBackground

        done = await self._controller.require_session().do(SendToBackground(path))
        how = "continues in the background" if done else "cannot continue in the background now"
        self._services.say_note(f"{path} {how}.")

    async def decide_worktree(self, path: str) -> None:
        """Ask what to do with the changes of an agent in its worktree, and do it."""
        agent = self._controller.state.agents.get(path)
        made = agent.worktree if agent else None
        if agent is None or made is None or made.state not in ("opened", "changed"):
            how = f" now: {worktree_text(made)}" if made else ""
            return self._services.say_note(f"{path} has no worktree{how}.")
        if not agent.ended:
            return self._services.say_note(f"{path} is still running in its worktree.")
        count = len(made.files)
        names = ", ".join(file.path for file in made.files[:SHOWN]) + (" ..." if count > SHOWN else "")
        choices = [
            ("apply", "Apply all changes to the folder"),
            ("keep", f"Keep it on the branch {made.branch} and remove its folder"),
            ("discard", "Discard it"),
            ("leave", "Decide later"),
        ]
        choose = self._services.choose
        choice = await choose(f"Worktree of {path} {worktree_text(made)}\n{names}", choices)
        if choice == "apply" and (conflict := await self._apply_worktree(path)):
            why, _, diff = conflict.partition("\nWhat the worktree changed in them:\n")
            rest = choices[1:][::-1]
            choice = await choose(why, rest, about={key: diff for key, _ in rest} if diff else {})
        if choice == "discard" and count:
            sure = [("", "No, keep it"), ("discard", f"Yes, discard {pluralize(count, 'changed file')}")]
            choice = await choose(f"What {path} changed is only in its worktree: {names}", sure)
        if choice == "keep" or choice == "discard":
            from friday_cli.session.commands import DiscardWorktree

            keep = choice == "keep"
            await self._controller.require_session().do(DiscardWorktree(path, keep))
            self._services.say_note(f"The work of {path} is {'kept on its branch' if keep else 'discarded'}.")

    async def _apply_worktree(self, path: str) -> str:
        """Apply the changes of a worktree to the folder. Returns why that is not possible."""
        from friday_cli.session.commands import ApplyWorktree

        try:
            files = await self._controller.require_session().do(ApplyWorktree(path))
        except FridayError as error:
            return str(error)
        self._services.say_note(f"{pluralize(len(files), 'file')} of {path} applied.")
        return ""
