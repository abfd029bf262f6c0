"""Stops what runs, and decides what becomes of the messages that waited for it: a stop sends nothing."""

from __future__ import annotations

from .chat_screen import ChatScreen
from .chat_services import ChatServices
from .shell_runner import ShellRunner


class RunStop:
    """The run of the main agent, a compaction, and the user's own command, as one thing that a key stops."""

    def __init__(self, services: ChatServices, chat: ChatScreen, shell: ShellRunner) -> None:
        self._services, self._controller, self._chat, self._shell = services, services.controller, chat, shell
        self._stopping = False
        """Whether the user stopped the run that is about to end: what is typed from then on is sent after it."""
        self._behind_run = False
        """Whether the queue waits for the end of a run that the user has not stopped."""

    @property
    def possible(self) -> bool:
        """Whether something runs that the user has not stopped yet."""
        return self._shell.running or self._controller.loop.running or (self._controller.working and not self._stopping)

    def stop(self) -> str:
        """Stop all of it, and say what was stopped. The queue goes back into the prompt."""
        self._chat.composer.take_back_queue()
        self._shell.stop()
        text = "The loop is stopped." if self._controller.loop.stop() else "Stopped."
        if self._controller.working:
            self._stopping, self._behind_run = True, False
            self._services.app.run_worker(self._controller.interrupt())
        self._services.presses.forget()
        return text

    def on_queued(self) -> None:
        """A message was put into the queue."""
        self._behind_run = self._controller.working and not self._stopping

    def on_idle(self) -> None:
        """The run has ended. What waited for one that was stopped elsewhere goes back into the prompt."""
        root, behind_run = self._controller.state.root, self._behind_run
        self._stopping = self._behind_run = False
        if behind_run and root is not None and root.end is not None and root.end.status == "cancelled":
            self._chat.composer.take_back_queue()
